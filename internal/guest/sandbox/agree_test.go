package sandbox

import (
	"errors"
	"path"
	"slices"
	"testing"

	"pgregory.net/rapid"

	sandboxpolicy "aloft/internal/policy/sandbox"
)

// changeable reports whether a path can be changed under the layout's mounts
// and Landlock rules, which it interprets as the kernel does.
func (l Layout) changeable(name string) bool {
	open := !l.Frozen
	for dir, rest := "/", path.Clean(name); ; {
		for _, m := range l.Mounts {
			if m.Path != dir {
				continue
			}
			switch m.Mode {
			case Writable:
				open = true
			case Fixed, Shown, Masked:
				open = false
			case Anchor, Kept:
			}
		}
		if dir == rest {
			break
		}
		next := rest
		for path.Dir(next) != dir {
			next = path.Dir(next)
		}
		dir = next
	}
	given := l.Files == 0
	for _, r := range l.Paths {
		given = given || r.Path != "" && sandboxpolicy.Below(r.Path, name) && r.Access&writeAccess&^readAccess != 0
	}
	return open && given
}

// TestPlanKeepsToTheRules generates policies with nested paths, including /. If
// the rules forbid a change of a path, no plan may allow it; if they allow the
// change, all plans must.
func TestPlanKeepsToTheRules(t *testing.T) {
	tree := with(plainTree, paper{
		"/w/a": "", "/w/a/b": "", "/w/a/b/c": "x", "/w/l": "> /x", "/x/y": "", "/x/y/z": "x", "/w/a/.git": "", "/w/a/.git/config": "x", "/w/tmp": "", "/w/tmp/f": "x",
		"/w/.profile": "x", "/w/a/.bashrc": "x", "/w/a/.ssh": "", "/w/a/.config": "", "/w/a/.config/git": "", "/w/a/.config/git/config": "x", "/w/tmp/.gitconfig": "x",
	})
	var names []string
	for name := range tree {
		switch tree.Kind(name) {
		case Dir: // whether a file can be created in the folder: the folder itself may be protected from renaming
			names = append(names, path.Join(name, "new"))
		case File:
			names = append(names, name)
		case None, Link, Other:
		}
	}
	slices.Sort(names)
	paths := []string{"/w", "/w/a", "/w/a/b", "/w/a/b/c", "/x", "/x/y", "/w/l", "/w/l/y", "/tmp", "/home", "/etc", "/usr", "/w/tmp", "a", "."}
	some := func(from ...string) *rapid.Generator[[]string] { return rapid.SliceOfN(rapid.SampledFrom(from), 0, 3) }
	rapid.Check(t, func(t *rapid.T) {
		p := sandboxpolicy.Policy{
			Type:      rapid.SampledFrom([]sandboxpolicy.Type{sandboxpolicy.ReadWrite, sandboxpolicy.ReadOnly}).Draw(t, "type"),
			ReadWrite: some(paths...).Draw(t, "read and write"), ReadOnly: some(append(paths, "/")...).Draw(t, "read only"), DisableTmpWrite: rapid.Bool().Draw(t, "no tmp"),
			ReadBoundary: sandboxpolicy.System,
		}
		place := sandboxpolicy.Scope{Workspaces: []string{"/w"}, Home: rapid.SampledFrom([]string{"/home/u", "/w", "/w/a", "/w/tmp"}).Draw(t, "home"), Temp: []string{"/tmp", "/w/tmp"}}
		rules := p.In(place)
		kernel := rapid.SampledFrom([]Kernel{
			{Landlock: 7, Namespaces: true, UID: 1000}, {Namespaces: true, UID: 1000}, {Namespaces: true, OldMounts: true, Mounted: []Mounted{{Path: "/"}}},
		}).Draw(t, "kernel")
		layout, err := Plan(Spec{Rules: rules, Masked: []string{"/run"}}, kernel, tree)
		if err != nil {
			t.Fatal(err)
		}
		// Rules judge paths after symbolic links are resolved.
		for _, list := range [][]sandboxpolicy.Grant{rules.Writable, rules.ReadOnly} {
			for i := range list {
				if at := tree.Resolve(list[i].Path); at != "" {
					list[i].Path = at
				}
			}
		}
		for _, name := range names {
			if judged, done := rules.Judge(sandboxpolicy.Write, name), layout.changeable(name); judged.Allowed != done && !slices.Contains(sandboxpolicy.Devices, name) {
				t.Errorf("%s: by the rules allowed %v (%s), by the plan %v:\n%s", name, judged.Allowed, judged.Rule, done, layout)
			}
		}
	})
}

// TestRootIsNotOpened checks policies that allow writing to /, under that name
// or another.
func TestRootIsNotOpened(t *testing.T) {
	t.Parallel()
	tree := with(plainTree, paper{"/w/root": "> /"})
	for _, name := range []string{"/", "//", "/w/..", "root", "../"} {
		rules := sandboxpolicy.Policy{Type: sandboxpolicy.ReadWrite, ReadWrite: []string{name}}.In(sandboxpolicy.Scope{Workspaces: []string{"/w"}})
		if _, err := Plan(Spec{Rules: rules}, Kernel{Landlock: 7, Namespaces: true}, tree); !errors.Is(err, errRoot) {
			t.Errorf("%q: %v", name, err)
		}
		rules = sandboxpolicy.Policy{Type: sandboxpolicy.ReadWrite, ReadWrite: []string{name}, ReadOnly: []string{"/"}}.In(sandboxpolicy.Scope{Workspaces: []string{"/w"}})
		if l, err := Plan(Spec{Rules: rules}, Kernel{Landlock: 7, Namespaces: true}, tree); err != nil || l.changeable("/w/new") {
			t.Errorf("%q, and / to be read only: %v\n%s", name, err, l)
		}
	}
}
