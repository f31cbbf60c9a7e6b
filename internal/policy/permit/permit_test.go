package permit

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     Permissions
	}{
		{"Empty", "", Permissions{}},
		{"EmptyObject", "{}", Permissions{}},
		{"EmptyListIsNotUnset", `{"terminalAllowlist": []}`, Permissions{TerminalAllowlist: []string{}}},
		{"Null", `{"terminalAllowlist": null}`, Permissions{}},
		{"UnknownKey", `{"colour": 1, "autoRun": {"colour": 1}}`, Permissions{}},
		{"CommentsCommasAndAMark", "\ufeff// mine\n{\"mcpAllowlist\": [\"a:b\",], /* x */}", Permissions{MCPAllowlist: []string{"a:b"}}},
		{"All", `{"mcpAllowlist":["a:b"],"terminalAllowlist":["ls"],"autoRun":{"allow_instructions":["tests"],"block_instructions":["aws"]}}`,
			Permissions{[]string{"a:b"}, []string{"ls"}, []string{"tests"}, []string{"aws"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Parse("permissions.json", []byte(c.in))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for in, word := range map[string]string{
		`[]`: "the file", `{"terminalAllowlist": "ls"}`: "terminalAllowlist", `{"mcpAllowlist": [1]}`: "mcpAllowlist",
		`{"autoRun": []}`: "autoRun", `{"autoRun": {"block_instructions": "x"}}`: "autoRun.block_instructions", `{`: "permissions.json",
		strings.Repeat(" ", MaxFile+1): "longer", strings.Repeat("[", MaxFile): "nested", `{"x":[` + strings.Repeat("{},", MaxFile/4) + "]}": "values",
		`{"terminalAllowlist": ["a"` + strings.Repeat(`,"a"`, maxEntries) + "]}": "at most 1000",
	} {
		p, err := Parse("permissions.json", []byte(in))
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%.40q: the error %v does not name %q", in, err, word)
		}
		if diff := cmp.Diff(Permissions{}, p); diff != "" {
			t.Errorf("%.40q: half of a file counts: %s", in, diff)
		}
	}
}

func TestMerge(t *testing.T) {
	home, project := Permissions{TerminalAllowlist: []string{"ls"}, BlockInstructions: []string{"no aws"}}, Permissions{TerminalAllowlist: []string{"make", "ls"}}
	if diff := cmp.Diff([]string{"ls", "make"}, Merge(home, project).TerminalAllowlist); diff != "" {
		t.Error(diff)
	}
}

func TestMCP(t *testing.T) {
	p := Permissions{MCPAllowlist: []string{"GitHub:get_*", "*:ping", "nothing", ":x", "y:", "db:*read*"}}
	for call, want := range map[string]bool{
		"github:get_issue": true, "GITHUB:GET_ISSUE": true, "github:delete_repo": false, "any:ping": true, "any:pings": false, "nothing:": false,
		"x:nothing": false, ":x": false, "y:z": false, "db:do_read_it": true, "db:write": false, "githubx:get_issue": false,
	} {
		server, tool, _ := strings.Cut(call, ":")
		if got := p.AllowsMCP(server, tool) != ""; got != want {
			t.Errorf("%s: allowed %v", call, got)
		}
	}
}

// TestCheck checks each run mode with each kind of call.
func TestCheck(t *testing.T) {
	listed := Permissions{TerminalAllowlist: []string{"git status"}, MCPAllowlist: []string{"gh:get"}}
	on, off := Setting{Permissions: listed, Sandbox: true, Enforced: true}, Setting{Permissions: listed, Enforced: true}
	weak := Setting{Permissions: listed, Sandbox: true}
	with := func(m Mode, s Setting) Setting { s.Mode = m; return s }
	unreadable := func(s Setting) Setting { s.Unreadable = true; return s }
	ls, rm := Call{Kind: Shell, Line: "git status"}, Call{Kind: Shell, Line: "rm x"}
	outside := Call{Kind: Shell, Line: "rm x", Unsandboxed: true}
	for _, c := range []struct {
		name string
		call Call
		in   Setting
		want Treatment
	}{
		{"AutoReview/AllowlistedShell", ls, with(AutoReview, on), Run},
		{"AutoReview/OtherShell", rm, with(AutoReview, on), Sandboxed},
		{"AutoReview/OtherShellWhereTheOptionIsOff", rm, with(AutoReview, off), Sandboxed},
		{"AutoReview/ShellThatNeedsMore", outside, with(AutoReview, on), Classify},
		{"AutoReview/NoSandboxHere", rm, with(AutoReview, weak), Ask},
		{"AutoReview/NoSandboxHereButAllowlisted", ls, with(AutoReview, weak), Run},
		{"AutoReview/AllowlistedMCP", Call{Kind: MCP, Server: "gh", Tool: "get"}, with(AutoReview, on), Run},
		{"AutoReview/OtherMCP", Call{Kind: MCP, Server: "gh", Tool: "delete"}, with(AutoReview, on), Classify},
		{"AutoReview/Fetch", Call{Kind: Fetch}, with(AutoReview, on), Classify},
		{"AutoReview/Desktop", Call{Kind: Desktop}, with(AutoReview, on), Classify},
		{"AutoReview/Read", Call{}, with(AutoReview, on), Run},
		{"AutoReview/Rules", Call{Kind: Config}, with(AutoReview, on), Ask},
		{"AutoReview/Protected", Call{Kind: Protected, Rule: "protected: .git"}, with(AutoReview, on), Classify},
		{"AutoReview/ProtectedAndUnreadableRules", Call{Kind: Protected}, unreadable(with(AutoReview, on)), Ask},
		{"AutoReview/UnreadableRules", ls, unreadable(with(AutoReview, on)), Ask},
		{"Allowlist/AllowlistedShell", ls, with(Allowlist, on), Run},
		{"Allowlist/OtherShell", rm, with(Allowlist, on), Sandboxed},
		{"Allowlist/OtherShellWithoutSandbox", rm, with(Allowlist, off), Ask},
		{"Allowlist/ShellThatNeedsMore", outside, with(Allowlist, on), Ask},
		{"Allowlist/NoSandboxHere", rm, with(Allowlist, weak), Ask},
		{"Allowlist/AllowlistedMCP", Call{Kind: MCP, Server: "gh", Tool: "get"}, with(Allowlist, on), Run},
		{"Allowlist/OtherMCP", Call{Kind: MCP, Server: "gh", Tool: "delete"}, with(Allowlist, on), Ask},
		{"Allowlist/Fetch", Call{Kind: Fetch}, with(Allowlist, on), Ask},
		{"Allowlist/Desktop", Call{Kind: Desktop}, with(Allowlist, on), Ask},
		{"Allowlist/Read", Call{}, with(Allowlist, on), Run},
		{"Allowlist/Rules", Call{Kind: Config}, with(Allowlist, on), Ask},
		{"Allowlist/Protected", Call{Kind: Protected, Rule: "protected: .git"}, with(Allowlist, on), Ask},
		{"RunEverything/Protected", Call{Kind: Protected}, with(RunEverything, on), Run},
		{"RunEverything/Shell", outside, with(RunEverything, weak), Run},
		{"RunEverything/MCP", Call{Kind: MCP, Server: "gh", Tool: "delete"}, with(RunEverything, on), Run},
		{"RunEverything/Fetch", Call{Kind: Fetch}, with(RunEverything, on), Run},
		{"RunEverything/Desktop", Call{Kind: Desktop}, with(RunEverything, on), Run},
		{"RunEverything/Rules", Call{Kind: Config}, with(RunEverything, on), Ask},
		{"Answered", Call{Kind: Fetch, Allowed: true}, with(Allowlist, on), Run},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Check(c.call, c.in); got.Treatment != c.want || got.Why == "" {
				t.Errorf("got %+v, want %s", got, c.want)
			}
		})
	}
}

func TestStrictest(t *testing.T) {
	if got := Strictest("", RunEverything, AutoReview); got != AutoReview {
		t.Errorf("got %q", got)
	}
	if got := Strictest("", ""); got != "" {
		t.Errorf("got %q", got)
	}
}

// TestFewerEntriesAllowNoMore checks that if an entry is removed, no call is
// allowed that needed a request before.
func TestFewerEntriesAllowNoMore(t *testing.T) {
	lines := []string{"ls", "ls -l", "git status", "git status && ls", "rm x", "ls | wc"}
	rapid.Check(t, func(t *rapid.T) {
		more := rapid.SliceOf(rapid.SampledFrom([]string{"ls", "git status", "git", "wc", "ls:-l*", "rm"})).Draw(t, "entries")
		fewer := slices.Clone(more)
		if len(fewer) > 0 {
			i := rapid.IntRange(0, len(fewer)-1).Draw(t, "without")
			fewer = slices.Delete(fewer, i, i+1)
		}
		for _, line := range lines {
			call := Call{Kind: Shell, Line: line}
			a := Check(call, Setting{Mode: Allowlist, Permissions: Permissions{TerminalAllowlist: fewer}})
			b := Check(call, Setting{Mode: Allowlist, Permissions: Permissions{TerminalAllowlist: more}})
			if a.Treatment == Run && b.Treatment != Run {
				t.Fatalf("%q runs with %q and not with %q", line, fewer, more)
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"terminalAllowlist":["ls"],}`))
	f.Add([]byte("// x\n{\"autoRun\":{\"block_instructions\":[\"y\"]}}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if p, err := Parse("permissions.json", data); err != nil && !cmp.Equal(p, Permissions{}) {
			t.Errorf("%q is invalid and gives %+v", data, p)
		}
	})
}
