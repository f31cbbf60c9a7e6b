package sandbox

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"aloft/internal/policy"
)

func TestParse(t *testing.T) {
	t.Parallel()
	l, err := Parse([]byte(`{
		// how much
		"type": "workspace_readonly",
		"additionalReadwritePaths": ["build", "~/cache"], "additionalReadonlyPaths": ["vendor"], "additionalReadPaths": ["/data"],
		"readBoundary": "workspace", "disableTmpWrite": true, "enableSharedBuildCache": false,
		"networkPolicy": {"default": "deny", "allow": ["*.npmjs.org", "10.1.0.0/16"], "deny": ["bad.npmjs.org",]},
		"disableTmpWrites": true, "$schema": "x",
	}`))
	if err != nil {
		t.Fatal(err)
	}
	p := Layers{Repository: l, Mode: FileOnly}.Merge()
	want := Policy{
		Type: ReadOnly, ReadWrite: []string{"build", "~/cache"}, ReadOnly: []string{"vendor"}, Read: []string{"/data"}, ReadBoundary: Workspace,
		DisableTmpWrite: true, Network: policy.Network{Mode: policy.List, Allow: []string{"*.npmjs.org", "10.1.0.0/16"}, Deny: []string{"bad.npmjs.org"}},
	}
	if !equal(p, want) {
		t.Errorf("%+v, want %+v", p, want)
	}
	if !slices.Equal(l.Unknown, []string{"disableTmpWrites"}) {
		t.Errorf("unknown keys are %q", l.Unknown)
	}
}

func equal(a, b Policy) bool {
	return a.Type == b.Type && slices.Equal(a.ReadWrite, b.ReadWrite) && slices.Equal(a.ReadOnly, b.ReadOnly) && slices.Equal(a.Read, b.Read) &&
		a.ReadBoundary == b.ReadBoundary && a.DisableTmpWrite == b.DisableTmpWrite && a.SharedBuildCache == b.SharedBuildCache &&
		a.Network.Mode == b.Network.Mode && slices.Equal(a.Network.Allow, b.Network.Allow) && slices.Equal(a.Network.Deny, b.Network.Deny)
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		``:                                    "not valid JSON",
		`[]`:                                  "must begin with {",
		`null`:                                "must begin with {",
		`{"type": "none"}`:                    "workspace_readwrite, workspace_readonly or insecure_none",
		`{"type": 1}`:                         "type is a number",
		`{"readBoundary": "all"}`:             "system or workspace",
		`{"disableTmpWrite": "yes"}`:          "disableTmpWrite is a string",
		`{"additionalReadPaths": "x"}`:        "additionalReadPaths is a string",
		`{"additionalReadwritePaths":[""]}`:   "is not a path",
		`{"networkPolicy": {"default": 1}}`:   "networkPolicy.default is a number",
		`{"networkPolicy": {"default":"x"}}`:  "allow or deny",
		`{"networkPolicy": {"deny":["a b"]}}`: "a b",
		`{"networkPolicy": {"allow":["https://x.test"]}}`: "https://x.test",
		strings.Repeat("[", 1<<20):                        "nested",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.60s: %v, want %q", text, err, says)
		}
	}
}

// TestDefaults checks each default of the specification.
func TestDefaults(t *testing.T) {
	t.Parallel()
	if p := Default(); !equal(p, Policy{Type: ReadWrite, ReadBoundary: System, Network: policy.Network{Mode: policy.None}}) {
		t.Errorf("the default is %+v", p)
	}
	if p := (Layers{}).Merge(); p.Network.Mode != policy.List || !slices.Equal(p.Network.Allow, DefaultHosts) {
		t.Errorf("the default mode gives %+v", p.Network)
	}
	if p := (Layers{Mode: AllowAll}).Merge(); !p.UnrestrictedHosts || p.Network.Mode != policy.AllowAll {
		t.Errorf("allow all gives %+v", p)
	}
	if p := (Layers{Mode: AllowAll, Home: &Layer{Network: &NetworkRules{Deny: []string{"x.test"}}}}).Merge(); p.UnrestrictedHosts {
		t.Error("a denied host is reached when all are allowed")
	}
}

func TestMerge(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	allow := func(hosts ...string) *Layer { return &Layer{Network: &NetworkRules{Allow: hosts}} }
	for name, tt := range map[string]struct {
		layers Layers
		want   func(Policy) bool
	}{
		"repository over home":       {Layers{Home: &Layer{Type: ReadOnly}, Repository: &Layer{Type: ReadWrite}}, func(p Policy) bool { return p.Type == ReadWrite }},
		"home where there is none":   {Layers{Home: &Layer{Type: ReadOnly}, Repository: &Layer{}}, func(p Policy) bool { return p.Type == ReadOnly }},
		"team is not weakened":       {Layers{Repository: &Layer{Type: InsecureNone}, Team: &Layer{Type: ReadOnly}}, func(p Policy) bool { return p.Type == ReadOnly }},
		"team does not widen":        {Layers{Repository: &Layer{Type: ReadOnly}, Team: &Layer{Type: ReadWrite}}, func(p Policy) bool { return p.Type == ReadOnly }},
		"team's boundary":            {Layers{Repository: &Layer{ReadBoundary: System}, Team: &Layer{ReadBoundary: Workspace}}, func(p Policy) bool { return p.ReadBoundary == Workspace }},
		"a restrictive true":         {Layers{Home: &Layer{DisableTmpWrite: &yes}, Repository: &Layer{DisableTmpWrite: &no}}, func(p Policy) bool { return p.DisableTmpWrite }},
		"team forbids the caches":    {Layers{Repository: &Layer{EnableSharedBuildCache: &yes}, Team: &Layer{EnableSharedBuildCache: &no}}, func(p Policy) bool { return !p.SharedBuildCache }},
		"the caches":                 {Layers{Home: &Layer{EnableSharedBuildCache: &yes}}, func(p Policy) bool { return p.SharedBuildCache }},
		"paths are united":           {Layers{Home: &Layer{ReadWritePaths: []string{"a", "b"}}, Repository: &Layer{ReadWritePaths: []string{"b", "c"}}}, func(p Policy) bool { return len(p.ReadWrite) == 3 }},
		"allow is united":            {Layers{Mode: FileOnly, Home: allow("a.test"), Repository: allow("b.test")}, func(p Policy) bool { return len(p.Network.Allow) == 2 }},
		"the team's list replaces":   {Layers{Home: allow("a.test"), Repository: allow("b.test"), Team: allow("c.test")}, func(p Policy) bool { return slices.Equal(p.Network.Allow, []string{"c.test"}) }},
		"the team's empty list":      {Layers{Repository: allow("b.test"), Team: &Layer{Network: &NetworkRules{Allow: []string{}}}}, func(p Policy) bool { return p.Network.Mode == policy.None }},
		"deny beats allow":           {Layers{Home: &Layer{Network: &NetworkRules{Default: "deny"}}, Repository: &Layer{Network: &NetworkRules{Default: "allow"}}, Mode: FileOnly}, func(p Policy) bool { return p.Network.Mode == policy.None }},
		"allow, where nobody denies": {Layers{Repository: &Layer{Network: &NetworkRules{Default: "allow"}}, Mode: FileOnly}, func(p Policy) bool { return p.Network.Mode == policy.AllowAll && !p.UnrestrictedHosts }},
	} {
		if p := tt.layers.Merge(); !tt.want(p) {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

var testScope = Scope{Workspaces: []string{"/w"}, Home: "/home/u", Temp: []string{"/tmp"}, Hidden: []string{"/w/secret", "/w/hidden"}}

func TestJudge(t *testing.T) {
	t.Parallel()
	near := Policy{Type: ReadWrite, ReadBoundary: Workspace, Read: []string{"/data"}}
	for _, tt := range []struct {
		policy Policy
		access Access
		name   string
		rule   string // the deciding rule; "no " before it means that the access is denied
	}{
		{Default(), Write, "/w/a", "type workspace_readwrite"},
		{Default(), Write, "/w/../etc/x", "no outside what type workspace_readwrite lets change"},
		{Default(), Write, "/wx", "no outside what type workspace_readwrite lets change"},
		{Default(), Write, "/tmp/x", "temporary files"},
		{Default(), Write, "/dev/null", "device"},
		{Default(), Read, "/etc/shadow", "readBoundary system"},
		{Default(), Read, "/w/secret", "no hidden /w/secret"},
		{Default(), Read, "/w/hidden/deep/x", "no hidden /w/hidden"},
		{Default(), Read, "/w/hidden2", "readBoundary system"},
		{Default(), Write, "/w/.git/config", "no protected .git/config"},
		{Default(), Write, "/w/.GIT/Config", "no protected .git/config"},
		{Default(), Write, "/w/.git", "no protected .git/hooks"},
		{Default(), Write, "/w/.git/index", "type workspace_readwrite"},
		{Default(), Write, "/w/.git/hooks/a/b", "no protected .git/hooks"},
		{Default(), Write, "/w/.git/info/attributes", "no protected .git/info/attributes"},
		{Default(), Write, "/w/.git/info/exclude", "type workspace_readwrite"},
		{Default(), Write, "/w/.vscode/a/b", "no protected .vscode"},
		{Default(), Write, "/w/X.Code-Workspace", "no protected *.code-workspace"},
		{Default(), Write, "/w/sub/x.code-workspace", "type workspace_readwrite"},
		{Default(), Write, "/w/.cursor/a.json", "no protected .cursor"},
		{Default(), Write, "/w/.claude/a/b.json", "no protected .claude"},
		{Default(), Write, "/w/.cursor/rules/x.mdc", "type workspace_readwrite"},
		{Default(), Write, "/w/.aloft/worktrees/x/package.json", "type workspace_readwrite"},
		{Default(), Write, "/w/.cursor/rulesx/x", "no protected .cursor"},
		{Default(), Write, "/w/.cursorignore", "no protected .cursorignore"},
		{Policy{Type: ReadOnly}, Write, "/w/a", "no type workspace_readonly"},
		{Policy{Type: ReadOnly, ReadWrite: []string{"build"}}, Write, "/w/build/a", "additionalReadwritePaths build"},
		{Policy{Type: ReadOnly, ReadWrite: []string{"a"}, ReadOnly: []string{"/"}}, Write, "/w/a", "no additionalReadonlyPaths /"},
		{Policy{Type: ReadWrite, ReadOnly: []string{"vendor"}}, Write, "/w/vendor/a", "no additionalReadonlyPaths vendor"},
		{Policy{Type: ReadWrite, ReadOnly: []string{"vendor"}, ReadWrite: []string{"vendor/x"}}, Write, "/w/vendor/x/a", "no additionalReadonlyPaths vendor"},
		{Policy{Type: ReadWrite, ReadWrite: []string{"~"}}, Write, "/home/u/.cursor/sandbox.json", "no protected .cursor"},
		{Policy{Type: ReadWrite, SharedBuildCache: true}, Write, "/home/u/.npm/x", "enableSharedBuildCache"},
		{Policy{Type: ReadWrite, DisableTmpWrite: true}, Write, "/tmp/x", "no outside what type workspace_readwrite lets change"},
		{near, Read, "/home/u/.ssh/id", "no readBoundary workspace"},
		{near, Read, "/data/x", "additionalReadPaths /data"},
		{near, Read, "/usr/bin/sh", "system"},
		{near, Read, "/w/x", "workspace"},
		{Policy{Type: InsecureNone}, Write, "/etc/x", "type insecure_none"},
	} {
		v := tt.policy.In(testScope).Judge(tt.access, tt.name)
		got := v.Rule
		if !v.Allowed {
			got = "no " + got
		}
		if got != tt.rule && !(got == "type workspace_readwrite" && tt.rule == "workspace") {
			t.Errorf("%v %s: %q, want %q", tt.access, tt.name, got, tt.rule)
		}
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	rules := Default().In(testScope)
	for output, want := range map[string]string{
		"sh: 1: cannot create /etc/x: Permission denied\n":                         "/etc/x may not be changed in the sandbox: outside what type",
		"touch: cannot touch '/opt/a b': Read-only file system\n":                  "/opt/a b may not be changed",
		"error: could not lock config file .git/config: Device or resource busy\n": "/w/.git/config may not be changed in the sandbox: protected .git/config",
		"cat: secret: Permission denied\n":                                         "/w/secret may not be read in the sandbox: hidden /w/secret",
		"Error: EROFS: read-only file system, open '/home/u/.npmrc'\n":             "/home/u/.npmrc may not be changed",
		"PermissionError: [Errno 13] Permission denied: '/root/x'\n":               "/root/x may not be changed",
		"/dev/shm/run/script: line 1: .git/config: Read-only file system\n":        "/w/.git/config may not be changed",
		"cat: /w/unreadable: Permission denied\n":                                  "", // the rules allow the access, so they are not the cause of the error
		"fatal: something else\n/etc/x is nice\n":                                  "",
		"ls: cannot open directory 'hidden': Permission denied\n":                  "/w/hidden may not be read",
		"mv: cannot move '.git' to 'g': Device or resource busy\n":                 "/w/.git may not be changed",
	} {
		got := strings.Join(rules.Explain("/w", output), "\n")
		if !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%q: %q, want %q", output, got, want)
		}
	}
}

// TestMoreRestrictionNeverAllowsMore draws random layers, and adds a
// restriction to one of them. The result must not allow more.
func TestMoreRestrictionNeverAllowsMore(t *testing.T) {
	t.Parallel()
	hosts := rapid.SampledFrom([]string{"a.test", "*.a.test", "b.a.test", "8.8.8.0/24", "10.0.0.0/8"})
	paths := rapid.SampledFrom([]string{"a", "a/b", "/etc", "~", "~/x", ".git", "/"})
	maybe := rapid.SampledFrom([]*bool{nil, new(true), new(false)})
	layer := rapid.Custom(func(t *rapid.T) *Layer {
		if rapid.IntRange(0, 3).Draw(t, "none") == 0 {
			return nil
		}
		l := &Layer{
			Type:                   rapid.SampledFrom([]Type{"", InsecureNone, ReadWrite, ReadOnly}).Draw(t, "type"),
			ReadWritePaths:         rapid.SliceOfN(paths, 0, 2).Draw(t, "rw"),
			ReadOnlyPaths:          rapid.SliceOfN(paths, 0, 2).Draw(t, "ro"),
			ReadPaths:              rapid.SliceOfN(paths, 0, 2).Draw(t, "read"),
			ReadBoundary:           rapid.SampledFrom([]Boundary{"", System, Workspace}).Draw(t, "boundary"),
			DisableTmpWrite:        maybe.Draw(t, "tmp"),
			EnableSharedBuildCache: maybe.Draw(t, "cache"),
		}
		if rapid.Bool().Draw(t, "network") {
			l.Network = &NetworkRules{
				Default: rapid.SampledFrom([]string{"", "allow", "deny"}).Draw(t, "default"),
				Allow:   rapid.SliceOfN(hosts, 0, 2).Draw(t, "allow"), Deny: rapid.SliceOfN(hosts, 0, 2).Draw(t, "deny"),
			}
		}
		return l
	})
	rapid.Check(t, func(t *rapid.T) {
		wide := Layers{
			Home: layer.Draw(t, "home"), Repository: layer.Draw(t, "repository"), Team: layer.Draw(t, "team"),
			Mode: rapid.SampledFrom([]NetworkMode{FileOnly, WithDefaults, AllowAll}).Draw(t, "mode"),
		}
		narrow := wide
		at := rapid.SampledFrom([]**Layer{&narrow.Home, &narrow.Repository, &narrow.Team}).Draw(t, "layer")
		l := orEmpty(*at)
		isTeam := at == &narrow.Team
		n := &NetworkRules{}
		if l.Network != nil {
			*n = *l.Network
		}
		how := rapid.IntRange(0, 7).Draw(t, "how")
		switch how {
		case 0:
			l.DisableTmpWrite = new(true)
		case 1:
			l.ReadOnlyPaths = append(slices.Clone(l.ReadOnlyPaths), paths.Draw(t, "path"))
		case 2:
			n.Deny = append(slices.Clone(n.Deny), hosts.Draw(t, "host"))
			l.Network = n
		case 3:
			n.Default = "deny"
			l.Network = n
		case 4:
			l.ReadWritePaths = nil
		case 5:
			l.EnableSharedBuildCache = new(false)
		case 6:
			if isTeam || l.Type != "" {
				l.Type = ReadOnly
			}
			if isTeam || l.ReadBoundary != "" {
				l.ReadBoundary = Workspace
			}
		case 7:
			if wide.Mode == WithDefaults {
				narrow.Mode = FileOnly
			} else if wide.Mode == AllowAll && wide.Team == nil {
				narrow.Mode = WithDefaults
			}
		}
		*at = &l
		w, r := wide.Merge(), narrow.Merge()
		if r.UnrestrictedHosts && !w.UnrestrictedHosts {
			t.Fatalf("%+v opens the network, %+v does not", r, w)
		}
		place := testScope
		place.Hidden = nil
		wr, rr := w.In(place), r.In(place)
		for _, name := range []string{"/w/x", "/w/a", "/w/a/b/c", "/w/.git/config", "/w/.git/index", "/etc/x", "/home/u/x/y", "/home/u/.npm/x", "/tmp/x", "/data", "/usr/x"} {
			for _, access := range []Access{Read, Write} {
				if access == Read && how == 1 {
					continue // a readable path may stay readable
				}
				if rr.Judge(access, name).Allowed && !wr.Judge(access, name).Allowed {
					t.Fatalf("%v of %s: allowed by %+v, and not by %+v", access, name, r, w)
				}
			}
		}
		if w.UnrestrictedHosts {
			return
		}
		wm, err := w.Network.Compile()
		if err != nil {
			t.Fatal(err)
		}
		rm, err := r.Network.Compile()
		if err != nil {
			t.Fatal(err)
		}
		for _, host := range []string{"a.test", "b.a.test", "c.test", "packages.npmjs.org"} {
			if rm.Name(host).Allowed && !wm.Name(host).Allowed {
				t.Fatalf("%s is reached by %+v, and not by %+v", host, r.Network, w.Network)
			}
			addr := netip.MustParseAddr("8.8.8.8")
			if rm.Address(addr, []string{host}).Allowed && !wm.Address(addr, []string{host}).Allowed {
				t.Fatalf("%s at %s is reached by %+v, and not by %+v", host, addr, r.Network, w.Network)
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{`{}`, `{"type":"workspace_readonly"}`, `{"networkPolicy":{"allow":["*.x.test"],},} // x`, `{"TYPE":"insecure_none"}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := Parse([]byte(text))
		if err != nil {
			return
		}
		p := Layers{Repository: l, Mode: FileOnly}.Merge()
		if _, err := p.Network.Compile(); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		v := p.In(testScope).Judge(Write, "/w/.git/config")
		if v.Allowed && p.Type != InsecureNone {
			t.Errorf("%q lets .git/config be changed: %s", text, v.Rule)
		}
	})
}

// TestIgnoreIsAsGitHasIt compares the matches of ignore rules with git's.
func TestIgnoreIsAsGitHasIt(t *testing.T) {
	t.Parallel()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err) // the repository's tests need git
	}
	names := []string{"a", "b.key", "d/a", "d/b.key", "d/e/a", "d/e/f/b.key", "x y", "#c", "!n", "d/x[1]", "caf\u00e9", "d/e/x1", "z/d/a"}
	for _, patterns := range []string{
		"a\n", "/a\n", "d/\n", "*.key\n", "*.key\n!d/b.key\n", "d/**\n", "**/e\n", "d/**/b.key\n", "d/*/a\n", "x\\ y\n", "\\#c\n", "#c\n", "\\!n\n",
		"[a-b]\n", "[!a]\n", "d/x\\[1]\n", "?\n", "/d/e/\n!/d/e/a\n", "*\n!*/\n!*.key\n", "a  \n", "e/f\n", "**\n", "d/e/x[[:digit:]]\n", "/*\n!/d\n", "", "\n\n", "[\n", "d//a\n",
	} {
		dir := t.TempDir()
		for _, args := range [][]string{{"init", "-q", dir}} {
			if out, err := exec.Command(git, args...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		for _, n := range names {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, n)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, n), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, ".git/info/exclude"), []byte(patterns), 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(git, "-C", dir, "check-ignore", "--stdin", "-z")
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		cmd.Stdin = strings.NewReader(strings.Join(names, "\x00") + "\x00")
		out, _ := cmd.Output() // exit status 1 means no match
		want := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
		var g Ignore
		g.Add("", patterns)
		for _, n := range names {
			got := false
			parts := strings.Split(n, "/")
			for i := range parts { // parents first, as in a walk from the root
				got = got || g.Match(strings.Join(parts[:i+1], "/"), i < len(parts)-1)
				if got {
					break
				}
			}
			if got != slices.Contains(want, n) {
				t.Errorf("%q: %q is %v, git says %v", patterns, n, got, !got)
			}
		}
	}
}

func FuzzIgnore(f *testing.F) {
	for _, s := range []string{"*.key", "!a/**/b", "[a-z", "\\", "[[:x:]]", "a/**", "[]-]", "[\\]]"} {
		f.Add(s, "a/b")
	}
	f.Fuzz(func(t *testing.T, text, name string) {
		var g Ignore
		g.Add("", text)
		_ = g.Match(name, true)
	})
}
