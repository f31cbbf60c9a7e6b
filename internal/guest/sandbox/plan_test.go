package sandbox

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	sandboxpolicy "aloft/internal/policy/sandbox"
)

var update = flag.Bool("update", false, "rewrite testdata")

// paper is a tree in memory. Its keys are paths; the values are "" for a
// folder, "x" for a file, and "> target" for a symbolic link.
type paper map[string]string

func (p paper) Kind(name string) Kind {
	switch v, ok := p[name]; {
	case !ok:
		return None
	case v == "":
		return Dir
	case strings.HasPrefix(v, "> "):
		return Link
	}
	return File
}

func (p paper) IsPlaceholder(string) bool { return false }

func (p paper) Folds(dir string) bool { return p["case of "+dir] != "" }

func (p paper) Names(dir string) []string {
	var names []string
	for name := range p {
		if path.Dir(name) == dir && name != "/" {
			names = append(names, path.Base(name))
		}
	}
	slices.Sort(names)
	return names
}

func (p paper) Resolve(name string) string {
	at := "/"
	for _, part := range strings.Split(strings.Trim(name, "/"), "/") {
		at = path.Join(at, part)
		if target, ok := strings.CutPrefix(p[at], "> "); ok {
			if !path.IsAbs(target) {
				target = path.Join(path.Dir(at), target)
			}
			at = target
		}
		if _, ok := p[at]; !ok && at != "/" {
			return ""
		}
	}
	return at
}

var plainTree = paper{
	"/": "", "/w": "", "/w/.git": "", "/w/.git/hooks": "", "/w/.git/config": "x", "/w/.git/info": "", "/w/.cursor": "", "/w/.cursor/rules": "",
	"/w/a.code-workspace": "x", "/w/secret": "x", "/w/build": "", "/tmp": "", "/tmp/.X11-unix": "", "/run": "", "/run/dns": "x", "/usr": "", "/etc": "", "/home": "", "/home/u": "",
	"/dev": "", "/dev/null": "x", "/dev/pts": "", "/x": "",
}

func with(tree paper, more paper) paper {
	all := paper{}
	for _, t := range []paper{tree, more} {
		for k, v := range t {
			all[k] = v
		}
	}
	return all
}

func TestPlan(t *testing.T) {
	t.Parallel()
	place := sandboxpolicy.Scope{Workspaces: []string{"/w"}, Home: "/home/u", Temp: []string{"/tmp"}, Hidden: []string{"/w/secret"}, Nested: []string{"/w/n"}}
	full := Kernel{Landlock: 7, Namespaces: true, UID: 1000, GID: 1000}
	masked := []string{"/run", "/tmp/.X11-unix", "/nowhere"}
	for name, tt := range map[string]struct {
		policy sandboxpolicy.Policy
		kernel Kernel
		tree   paper
		best   bool
	}{
		"plain":            {sandboxpolicy.Default(), full, plainTree, false},
		"root":             {sandboxpolicy.Default(), Kernel{Landlock: 7, Namespaces: true, Privileged: true}, plainTree, false},
		"read_only":        {sandboxpolicy.Policy{Type: sandboxpolicy.ReadOnly, ReadWrite: []string{"build"}}, full, plainTree, false},
		"boundary":         {sandboxpolicy.Policy{Type: sandboxpolicy.ReadWrite, ReadBoundary: sandboxpolicy.Workspace, Read: []string{"/x"}, DisableTmpWrite: true}, full, plainTree, false},
		"nothing_there":    {sandboxpolicy.Default(), full, paper{"/": "", "/w": ""}, false},
		"workspace_in_tmp": {sandboxpolicy.Default(), full, paper{"/": "", "/w": "> /tmp/a/w", "/tmp": "", "/tmp/a": "", "/tmp/a/w": ""}, false},
		"links":            {sandboxpolicy.Default(), full, with(plainTree, paper{"/w/.vscode": "> v", "/w/v": "", "/w/.git/hooks": "> ../h", "/w/h": ""}), false},
		"link_to_nowhere":  {sandboxpolicy.Default(), full, with(plainTree, paper{"/w/.vscode": "> v"}), false},
		"worktree":         {sandboxpolicy.Default(), full, paper{"/": "", "/w": "", "/w/.git": "x"}, false},
		"modules": {sandboxpolicy.Default(), full, with(plainTree, paper{
			"/w/.git/modules": "", "/w/.git/modules/libs": "", "/w/.git/modules/libs/a": "", "/w/.git/modules/libs/a/HEAD": "x", "/w/.git/modules/libs/a/config": "x",
			"/w/.git/modules/libs/a/modules": "", "/w/.git/modules/libs/a/modules/b": "", "/w/.git/modules/libs/a/modules/b/config": "x", "/w/.git/modules/libs/a/modules/b/hooks": "",
			"/w/.git/worktrees": "", "/w/.git/worktrees/t": "", "/w/.git/worktrees/t/commondir": "x", "/w/.git/config.worktree": "x",
		}), false},
		"nested":            {sandboxpolicy.Default(), full, with(plainTree, paper{"/w/n": "", "/w/n/.git": "", "/w/n/.git/config": "x", "/w/n/.git/hooks": "", "/w/n/.vscode": ""}), false},
		"old_landlock":      {sandboxpolicy.Default(), Kernel{Landlock: 3, Namespaces: true, UID: 1000, GID: 1000}, plainTree, false},
		"no_landlock":       {sandboxpolicy.Default(), Kernel{Namespaces: true, UID: 1000, GID: 1000}, plainTree, false},
		"no_namespaces":     {sandboxpolicy.Default(), Kernel{Landlock: 7, Why: "operation not permitted"}, plainTree, false},
		"no_namespaces_but": {sandboxpolicy.Default(), Kernel{Landlock: 7, Why: "operation not permitted"}, plainTree, true},
		"nothing":           {sandboxpolicy.Default(), Kernel{}, plainTree, true},
		"boundary_without":  {sandboxpolicy.Policy{Type: sandboxpolicy.ReadWrite, ReadBoundary: sandboxpolicy.Workspace}, Kernel{Namespaces: true}, plainTree, false},
		"boundary_old":      {sandboxpolicy.Policy{Type: sandboxpolicy.ReadWrite, ReadBoundary: sandboxpolicy.Workspace, Read: []string{"/home/u"}}, Kernel{Namespaces: true, OldMounts: true}, plainTree, false},
		"old_mounts":        {sandboxpolicy.Default(), Kernel{Namespaces: true, OldMounts: true, Privileged: true, Mounted: []Mounted{{Path: "/"}}}, plainTree, false},
		"any_case":          {sandboxpolicy.Default(), full, with(plainTree, paper{"case of /w": "any", "case of /w/.git": "any"}), false},
		"any_case_but":      {sandboxpolicy.Default(), full, with(plainTree, paper{"case of /w": "any", "case of /w/.git": "any"}), true},
		"list":              {sandboxpolicy.Layers{}.Merge(), full, plainTree, false},
		"all_hosts":         {sandboxpolicy.Layers{Mode: sandboxpolicy.AllowAll}.Merge(), full, plainTree, false},
		"none":              {sandboxpolicy.Policy{Type: sandboxpolicy.InsecureNone}, full, plainTree, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := Spec{Rules: tt.policy.In(place), Masked: masked, Kept: []string{"/run/dns"}, BestEffort: tt.best, Streams: []Stream{{FD: 1, Write: true}}}
			layout, err := Plan(spec, tt.kernel, tt.tree)
			got := layout.String()
			if missing, ok := errors.AsType[*UnenforceableError](err); ok {
				got = "refused:\n  " + strings.Join(missing.Missing, "\n  ") + "\n"
			} else if err != nil {
				got = fmt.Sprintf("error: %v\n", err)
			}
			golden := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.MkdirAll("testdata", 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}
