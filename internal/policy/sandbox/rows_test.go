package sandbox

import (
	"strings"
	"testing"

	"aloft/internal/policy"
)

// The tables in this file correspond to those about sandbox.json in
// docs/reference/run-modes.md. Each row has a test of its name. These tests
// check the rules; cmd/sandbox checks them on a real kernel.

// allowed reports whether the policy allows an action: "w:PATH" writes a file,
// "r:PATH" reads one, and "h:HOST" connects to a host.
func allowed(t *testing.T, p Policy, deed string) bool {
	t.Helper()
	name := deed[2:]
	switch deed[:2] {
	case "w:":
		return p.In(testScope).Judge(Write, name).Allowed
	case "r:":
		return p.In(testScope).Judge(Read, name).Allowed
	}
	m, err := p.Network.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return m.Name(name).Allowed
}

func layer(t *testing.T, text string) *Layer {
	t.Helper()
	if text == "" {
		return nil
	}
	l, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestKeys checks the keys and their values.
func TestKeys(t *testing.T) {
	for _, c := range []struct {
		name, file string
		yes, no    []string
	}{
		{"default", ``, []string{"w:/w/a", "w:/tmp/a", "r:/etc/passwd", "r:/home/u/x"}, []string{"w:/etc/x", "w:/home/u/x", "w:/home/u/.npm/x", "h:example.com"}},
		{"type workspace_readwrite", `{"type":"workspace_readwrite"}`, []string{"w:/w/a"}, []string{"w:/etc/x"}},
		{"type workspace_readonly", `{"type":"workspace_readonly"}`, []string{"r:/w/a", "w:/tmp/a"}, []string{"w:/w/a"}},
		{"type insecure_none", `{"type":"insecure_none"}`, []string{"w:/etc/x", "r:/home/u/x"}, nil},
		{"additionalReadwritePaths", `{"additionalReadwritePaths":["/cache","~/own"]}`, []string{"w:/cache/x", "w:/home/u/own/x"}, []string{"w:/cachex", "w:/home/u/x"}},
		{"additionalReadonlyPaths", `{"additionalReadonlyPaths":["vendor"]}`, []string{"r:/w/vendor/x", "w:/w/x"}, []string{"w:/w/vendor/x"}},
		{"additionalReadPaths", `{"readBoundary":"workspace","additionalReadPaths":["/data"]}`, []string{"r:/data/x"}, []string{"r:/home/u/x", "w:/data/x"}},
		{"readBoundary system", `{"readBoundary":"system"}`, []string{"r:/home/u/x"}, nil},
		{"readBoundary workspace", `{"readBoundary":"workspace"}`, []string{"r:/w/x", "r:/usr/bin/sh"}, []string{"r:/home/u/x"}},
		{"disableTmpWrite", `{"disableTmpWrite":true}`, []string{"w:/w/a"}, []string{"w:/tmp/a"}},
		{"enableSharedBuildCache", `{"enableSharedBuildCache":true}`, []string{"w:/home/u/.npm/x", "w:/home/u/go/pkg/x"}, []string{"w:/home/u/x"}},
		{"networkPolicy default", `{"networkPolicy":{"default":"allow","deny":["bad.test"]}}`, []string{"h:example.com"}, []string{"h:bad.test"}},
		{"networkPolicy allow", `{"networkPolicy":{"allow":["*.good.test"]}}`, []string{"h:good.test", "h:a.good.test"}, []string{"h:example.com"}},
		{"networkPolicy deny", `{"networkPolicy":{"allow":["*.good.test"],"deny":["bad.good.test"]}}`, []string{"h:good.test"}, []string{"h:bad.good.test"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := Layers{Repository: layer(t, c.file), Mode: FileOnly}.Merge()
			for _, deed := range c.yes {
				if !allowed(t, p, deed) {
					t.Errorf("%s is refused", deed)
				}
			}
			for _, deed := range c.no {
				if allowed(t, p, deed) {
					t.Errorf("%s is allowed", deed)
				}
			}
		})
	}
}

// TestMergeRows checks how files are merged.
func TestMergeRows(t *testing.T) {
	for _, c := range []struct {
		name, home, repo, team string
		yes, no                []string
	}{
		{"repository over home", `{"type":"workspace_readonly"}`, `{"type":"workspace_readwrite"}`, ``, []string{"w:/w/a"}, nil},
		{"team over both", `{"type":"workspace_readwrite"}`, `{"type":"insecure_none"}`, `{"type":"workspace_readonly"}`, nil, []string{"w:/w/a", "w:/etc/x"}},
		{"built-in over all", `{"additionalReadwritePaths":[".git"]}`, `{"additionalReadwritePaths":["/w/.git/config"]}`, `{"additionalReadwritePaths":["/w/.cursor"]}`,
			nil, []string{"w:/w/.git/config", "w:/w/.git/hooks/x", "w:/w/.cursor/sandbox.json"}},
		{"paths united", `{"additionalReadwritePaths":["/a"]}`, `{"additionalReadwritePaths":["/b"]}`, `{"additionalReadwritePaths":["/c"]}`, []string{"w:/a/x", "w:/b/x", "w:/c/x"}, nil},
		{"denials united", `{"networkPolicy":{"deny":["a.test"]}}`, `{"networkPolicy":{"default":"allow","deny":["b.test"]}}`, `{"networkPolicy":{"deny":["c.test"]}}`,
			[]string{"h:d.test"}, []string{"h:a.test", "h:b.test", "h:c.test"}},
		{"allow united", `{"networkPolicy":{"allow":["a.test"]}}`, `{"networkPolicy":{"allow":["b.test"]}}`, ``, []string{"h:a.test", "h:b.test"}, nil},
		{"team's list replaces", `{"networkPolicy":{"allow":["a.test"]}}`, `{"networkPolicy":{"allow":["b.test"]}}`, `{"networkPolicy":{"allow":["c.test"]}}`,
			[]string{"h:c.test"}, []string{"h:a.test", "h:b.test"}},
		{"default allow of a repository", ``, `{"networkPolicy":{"default":"allow","allow":["b.test"]}}`, `{"networkPolicy":{"allow":["c.test"]}}`,
			[]string{"h:c.test"}, []string{"h:b.test", "h:d.test"}},
		{"default allow of a person", `{"networkPolicy":{"default":"allow"}}`, ``, `{"networkPolicy":{"allow":[]}}`, nil, []string{"h:a.test"}},
		{"default allow of the team", ``, ``, `{"networkPolicy":{"default":"allow","allow":["c.test"]}}`, []string{"h:c.test", "h:d.test"}, nil},
		{"deny beats allow", `{"networkPolicy":{"default":"deny"}}`, `{"networkPolicy":{"default":"allow"}}`, ``, nil, []string{"h:a.test"}},
		{"restrictive true wins", `{"disableTmpWrite":true}`, `{"disableTmpWrite":false}`, ``, nil, []string{"w:/tmp/x"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := Layers{Home: layer(t, c.home), Repository: layer(t, c.repo), Team: layer(t, c.team), Mode: FileOnly}.Merge()
			for _, deed := range c.yes {
				if !allowed(t, p, deed) {
					t.Errorf("%s is refused", deed)
				}
			}
			for _, deed := range c.no {
				if allowed(t, p, deed) {
					t.Errorf("%s is allowed", deed)
				}
			}
		})
	}
}

// TestNetworkModes checks which source's network rules apply.
func TestNetworkModes(t *testing.T) {
	file := &Layer{Network: &NetworkRules{Allow: []string{"own.test"}, Deny: []string{"bad.test"}}}
	for _, c := range []struct {
		name                 string
		mode                 NetworkMode
		packages, other, bad bool // the host own.test is always allowed
	}{
		{"sandbox_json", FileOnly, false, false, false},
		{"sandbox_json_and_defaults", WithDefaults, true, false, false},
		{"default", "", true, false, false},
		{"allow_all", AllowAll, true, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := Layers{Repository: file, Mode: c.mode}.Merge()
			for deed, want := range map[string]bool{
				"h:own.test": true, "h:packages.npmjs.org": c.packages, "h:pages.golang.org": c.packages, "h:example.com": c.other, "h:bad.test": c.bad,
			} {
				if got := allowed(t, p, deed); got != want {
					t.Errorf("%s: %v, want %v", deed, got, want)
				}
			}
			if _, err := p.Network.Compile(); err != nil || p.Network.Mode == policy.None {
				t.Errorf("the network is %+v: %v", p.Network, err)
			}
		})
	}
}

// TestProtected checks which paths must not be changed even in the workspace,
// whatever a file says.
func TestProtected(t *testing.T) {
	open := Layers{Home: &Layer{Type: ReadWrite, ReadWritePaths: []string{"/", "/w", "/w/.git", "/w/.cursor", "/w/.vscode"}}}.Merge()
	for name, paths := range map[string][]string{
		".cursor/*.json":       {"/w/.cursor/sandbox.json", "/w/.cursor/permissions.json", "/w/.cursor/hooks.json", "/w/.Cursor/MCP.json"},
		".cursor/**/*.json":    {"/w/.cursor/a/b/c.json"},
		".aloft":               {"/w/.aloft/sandbox.json", "/w/.aloft/a/b.json"},
		".claude":              {"/w/.claude/settings.json", "/w/.claude/settings.local.json", "/w/.claude/a/b.json"},
		".vscode/**":           {"/w/.vscode/tasks.json", "/w/.vscode/a/b"},
		"*.code-workspace":     {"/w/x.code-workspace"},
		".git/hooks/**":        {"/w/.git/hooks/pre-commit", "/w/.git/hooks/a/b"},
		".git/config":          {"/w/.git/config", "/w/.GIT/CONFIG"},
		".git/info/attributes": {"/w/.git/info/attributes"},
		".cursorignore":        {"/w/.cursorignore"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, path := range paths {
				if allowed(t, open, "w:"+path) || !allowed(t, open, "r:"+path) {
					t.Errorf("%s: may be changed %v, read %v", path, allowed(t, open, "w:"+path), allowed(t, open, "r:"+path))
				}
			}
		})
	}
	for _, name := range []string{"writable rules", "writable commands", "writable worktrees", "writable skills", "writable agents"} {
		t.Run(name, func(t *testing.T) {
			for _, folder := range []string{".cursor", ".aloft", ".claude"} {
				if path := "/w/" + folder + "/" + strings.TrimPrefix(name, "writable ") + "/x.json"; !allowed(t, Default(), "w:"+path) {
					t.Errorf("%s may not be changed", path)
				}
			}
		})
	}
	t.Run("hidden", func(t *testing.T) {
		if allowed(t, open, "r:/w/secret") || allowed(t, open, "r:/w/hidden/deep") {
			t.Error("what .cursorignore names is read")
		}
	})
}
