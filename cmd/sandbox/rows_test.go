package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/guest/sandbox"
	sandboxpolicy "aloft/internal/policy/sandbox"
)

// TestProtectedRows has a subtest for each protected path on this kernel.
// Nothing at that path may be changed, whether it exists or not, and the
// command's output must name the rule.
func TestProtectedRows(t *testing.T) {
	requireAll(t)
	uid := os.Geteuid()
	s := newScene(t, uid)
	for _, row := range []struct {
		name, rule string
		attempts   []string
	}{
		{".cursor/*.json", "protected .cursor", []string{"echo x > .cursor/sandbox.json", "echo x > .cursor/permissions.json", "echo x > .cursor/hooks.json", "rm .cursor/sandbox.json"}},
		{".cursor/**/*.json", "protected .cursor", []string{"echo x > .cursor/deep/x.json", "mkdir .cursor/new", "rm -r .cursor/deep"}},
		{".aloft/*.json", "protected .aloft", []string{"echo x > .aloft/sandbox.json"}},
		{".aloft/**/*.json", "protected .aloft", []string{"mkdir .aloft/deep"}},
		{".claude/*.json", "protected .claude", []string{"echo x > .claude/settings.json", "echo x > .claude/settings.local.json"}},
		{".claude/**/*.json", "protected .claude", []string{"mkdir .claude/deep"}},
		{".vscode/**", "protected .vscode", []string{"echo x > .vscode/tasks.json", "mkdir .vscode/a", "rmdir .vscode"}},
		{"*.code-workspace", "protected *.code-workspace", []string{"echo x > team.code-workspace", "rm team.code-workspace"}},
		{".git/hooks/**", "protected .git/hooks", []string{"echo x > .git/hooks/pre-commit", "echo x > .git/hooks/post-merge", "mv .git/hooks h"}},
		{".git/config", "protected .git/config", []string{"echo x > .git/config", "rm .git/config", "ln .git/config c"}},
		{".git/info/attributes", "protected .git/info/attributes", []string{"echo x > .git/info/attributes"}},
		{".cursorignore", "protected .cursorignore", []string{"echo x > .cursorignore", "rm .cursorignore"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			at := newSite(t, s.base, uid)
			before := at.state(t)
			for _, attempt := range row.attempts {
				code, said := s.try(t, at, escape{name: attempt, attempt: attempt}, "{}", true)
				if code == 0 || code == sandbox.ExitFailed || code == sandbox.ExitUnenforceable {
					t.Errorf("%s: exit %d: %s", attempt, code, said)
				}
				checkExplained(t, at, sandboxpolicy.Default(), said, row.rule)
			}
			if after := at.state(t); after != before {
				t.Errorf("changed:\n%swas:\n%s", after, before)
			}
		})
	}
	t.Run("writable inside .cursor", func(t *testing.T) {
		at := newSite(t, s.base, uid)
		for _, dir := range []string{"rules", "commands", "worktrees", "skills", "agents"} {
			attempt := "mkdir -p .cursor/" + dir + "/new && echo x > .cursor/" + dir + "/new/x.json"
			if code, said := s.try(t, at, escape{name: dir, attempt: attempt}, "{}", true); code != 0 {
				t.Errorf("%s: exit %d: %s", dir, code, said)
			}
			if _, err := os.Stat(filepath.Join(at.workspace, ".cursor", dir, "new", "x.json")); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("set aside", func(t *testing.T) { // names that cannot be protected before they exist
		for _, name := range []string{"new.code-workspace", "NEW.Code-Workspace", ".git/commondir"} {
			at := newSite(t, s.base, uid)
			code, said := s.try(t, at, escape{name: name, attempt: "echo x > " + name}, "{}", true)
			if code != 0 || !strings.Contains(said, filepath.Join(at.workspace, name)+" is protected: the file that the command created there was renamed") {
				t.Errorf("%s: exit %d: %s", name, code, said)
			}
			if _, err := os.Stat(filepath.Join(at.workspace, name)); err == nil {
				t.Errorf("%s is there", name)
			}
		}
	})
}

// checkExplained checks that the explanation of a denial contains the path, the rule,
// and how to request access.
func checkExplained(t *testing.T, at site, p sandboxpolicy.Policy, said, rule string) {
	t.Helper()
	rules, err := (sandbox.Request{Policy: p, Workspaces: []string{at.workspace}}).Rules(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Join(rules.Explain(at.workspace, said), "\n")
	if !strings.Contains(words, at.dir) || !strings.Contains(words, rule) || !strings.Contains(words, "To fix this: ") {
		t.Errorf("of %q the agent is told %q, not of the rule %q", said, words, rule)
	}
}

// TestDenialsAreExplained checks, for each kind of denial, that the right rule
// is named.
func TestDenialsAreExplained(t *testing.T) {
	requireAll(t)
	uid := os.Geteuid()
	s := newScene(t, uid)
	for _, c := range []struct{ name, policy, attempt, rule string }{
		{"outside", `{}`, "echo x > $O/file", "outside what type workspace_readwrite lets change"},
		{"removing outside", `{}`, "rm $O/file", "outside what type workspace_readwrite lets change"},
		{"mode outside", `{}`, "chmod 777 $O/file", "outside what type workspace_readwrite lets change"},
		{"read-only type", `{"type": "workspace_readonly"}`, "echo x > src/main.go", "type workspace_readonly"},
		{"read-only path", `{"additionalReadonlyPaths": ["vendor"]}`, "echo x > vendor/x", "additionalReadonlyPaths vendor"},
		{"boundary", `{"readBoundary": "workspace"}`, "cat $O/file", "readBoundary workspace"},
		{"temporary files", `{"disableTmpWrite": true}`, "echo x > /tmp/aloft-denied", "outside what type"},
		{"hidden file", `{}`, "cat secret.txt", "hidden "},
		{"protected", `{}`, "echo x > .git/config", "protected .git/config"},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := newSite(t, s.base, uid)
			layer, err := sandboxpolicy.Parse([]byte(c.policy))
			if err != nil {
				t.Fatal(err)
			}
			code, said := s.try(t, at, escape{name: c.name, attempt: c.attempt}, c.policy, true)
			if code == 0 {
				t.Fatal("it worked")
			}
			p := sandboxpolicy.Layers{Repository: layer, Mode: sandboxpolicy.FileOnly}.Merge()
			rules, err := (sandbox.Request{Policy: p, Workspaces: []string{at.workspace}}).Rules(os.Getenv)
			if err != nil {
				t.Fatal(err)
			}
			words := strings.Join(rules.Explain(at.workspace, said), "\n")
			if !strings.Contains(words, c.rule) || !strings.Contains(words, "To fix this: ") {
				t.Errorf("of %q the agent is told %q, not of the rule %q", said, words, c.rule)
			}
		})
	}
	t.Run("host", func(t *testing.T) {
		at := newSite(t, s.base, uid)
		_, said := s.try(t, at, escape{attempt: "$P reach connect denied.test:443"}, `{"networkPolicy": {"allow": ["allowed.test"]}}`, true)
		if !strings.Contains(said, "blocked denied.test:443: ") || !strings.Contains(said, "To allow it, add it to networkPolicy.allow") {
			t.Errorf("told %q", said)
		}
	})
}
