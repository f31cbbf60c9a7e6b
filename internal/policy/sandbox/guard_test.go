package sandbox

import "testing"

// TestGuard checks which files a file tool may change without a review.
func TestGuard(t *testing.T) {
	t.Parallel()
	g := Guard{Workspaces: []string{"/workspace"}, Free: []string{"/tmp"}}
	for name, want := range map[string]string{
		"/workspace/a.go":                        "",
		"/workspace/sub/Makefile":                "",
		"/workspace/.gitignore":                  "",
		"/workspace/.gitattributes":              "",
		"/workspace/.github/workflows/ci.yaml":   "",
		"/workspace/.env":                        "",
		"/workspace/head":                        "",
		"/workspace/.cursor/rules/style.mdc":     "",
		"/workspace/.claude/agents/x.md":         "",
		"/workspace/.cursor/worktrees/a/b.go":    "",
		"/tmp/x":                                 "",
		"/tmp/sub/x.sh":                          "",
		"/":                                      Outside,
		"/workspace":                             Outside,
		"/workspaces/x":                          Outside,
		"/workspace/../etc/passwd":               Outside,
		"/home/ubuntu/.bashrc":                   Outside,
		"/home/ubuntu/.ssh/config":               Outside,
		"/usr/local/include/evil.mk":             Outside,
		"relative":                               Outside,
		"/workspace/.git":                        "protected: .git",
		"/workspace/.git/config":                 "protected: .git",
		"/workspace/.git/hooks/pre-commit":       "protected: .git",
		"/workspace/.git/info/attributes":        "protected: .git",
		"/workspace/sub/.git/config":             "protected: .git",
		"/workspace/x/../.git/config":            "protected: .git",
		"/workspace/.GIT/config":                 "protected: .git",
		"/workspace/.g\u200dit/config":           "protected: .git",
		"/workspace/.ｇｉｔ/config":                 "protected: .git",
		"/workspace/.git./config":                "protected: .git",
		`/workspace/.git\config`:                 "protected: .git",
		"/workspace/.vſcode/tasks.json":          "protected: .vscode",
		"/workspace/.ßh/config":                  "protected: .ssh",
		"/workspace/.cursor/hooks.json":          "protected: .cursor",
		"/workspace/.cursor/rules":               "protected: .cursor",
		"/workspace/.cursor/a/b.json":            "protected: .cursor",
		"/workspace/.cursor/worktrees/a/.git":    "protected: .git",
		"/workspace/.cursorignore":               "protected: .cursorignore",
		"/workspace/.cursorrules":                "protected: .cursorrules",
		"/workspace/.vscode/tasks.json":          "protected: .vscode",
		"/workspace/a.code-workspace":            "protected: a.code-workspace",
		"/workspace/.bashrc":                     "protected: .bashrc",
		"/workspace/~/.profile":                  "protected: .profile",
		"/workspace/.npmrc":                      "protected: .npmrc",
		"/workspace/.gitconfig":                  "protected: .gitconfig",
		"/workspace/.mcp.json":                   "protected: .mcp.json",
		"/workspace/.husky/pre-commit":           "protected: .husky",
		"/workspace/bare/HEAD":                   "protected: head",
		"/tmp/repo/.git/config":                  "protected: .git",
		"/workspace/.Git/Hooks/post-checkout":    "protected: .git",
		"/workspace/sub/.aloft/permissions.json": "protected: .aloft",
	} {
		if got := g.Judge(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
