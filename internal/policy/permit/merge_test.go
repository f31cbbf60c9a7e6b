package permit

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// freedom orders the treatments by how freely the agent can act.
var freedom = map[Treatment]int{Ask: 0, Classify: 1, Sandboxed: 2, Run: 3}

// TestMergeIsMonotone draws files, modes and machine properties, and adds one
// restriction. No call may then be treated more freely.
func TestMergeIsMonotone(t *testing.T) {
	shell := rapid.SampledFrom([]string{"ls", "git status", "git", "wc", "ls:-l*", "rm", "echo", "make:*"})
	mcp := rapid.SampledFrom([]string{"gh:get", "gh:*", "*:get", "db:*", "GH:Get"})
	words := rapid.SliceOfN(rapid.SampledFrom([]string{"No AWS.", "No pushes."}), 0, 2)
	lists := func(t *rapid.T, of string) Permissions {
		return Permissions{
			TerminalAllowlist: rapid.SliceOfN(shell, 0, 4).Draw(t, of+" terminal"), MCPAllowlist: rapid.SliceOfN(mcp, 0, 3).Draw(t, of+" mcp"),
			AllowInstructions: words.Draw(t, of+" allow"), BlockInstructions: words.Draw(t, of+" block"),
		}
	}
	calls := []Call{
		{Kind: Other}, {Kind: Fetch}, {Kind: Config}, {Kind: MCP, Server: "gh", Tool: "get"}, {Kind: MCP, Server: "db", Tool: "put"},
		{Kind: Shell, Unsandboxed: true}, {Kind: Shell, Line: "ls", Unsandboxed: true},
	}
	for _, line := range []string{"ls", "ls -l", "git status && ls", "rm x", "ls | wc", "echo $(git status)", "make all", "ls > x"} {
		calls = append(calls, Call{Kind: Shell, Line: line})
	}
	rapid.Check(t, func(t *rapid.T) {
		home, project := lists(t, "home"), lists(t, "project")
		wide := Setting{
			Mode: rapid.SampledFrom(Modes).Draw(t, "mode"), Sandbox: rapid.Bool().Draw(t, "sandbox"),
			Enforced: rapid.Bool().Draw(t, "enforced"), Unreadable: rapid.Bool().Draw(t, "unreadable"),
			Permissions: Merge(home, project),
		}
		narrow := wide
		for range rapid.IntRange(1, 3).Draw(t, "restrictions") {
			of := rapid.SampledFrom([]*Permissions{&home, &project}).Draw(t, "file")
			switch rapid.IntRange(0, 6).Draw(t, "restriction") {
			case 0:
				of.TerminalAllowlist = without(t, of.TerminalAllowlist)
			case 1:
				of.MCPAllowlist = without(t, of.MCPAllowlist)
			case 2:
				of.BlockInstructions = append(slices.Clone(of.BlockInstructions), "No Azure.")
			case 3:
				of.AllowInstructions = without(t, of.AllowInstructions)
			case 4:
				narrow.Mode = Modes[max(slices.Index(Modes, narrow.Mode)-1, 0)]
			case 5:
				narrow.Enforced = false
			case 6:
				narrow.Unreadable = true
			}
		}
		narrow.Permissions = Merge(home, project)
		for _, c := range calls {
			w, n := Check(c, wide), Check(c, narrow)
			if freedom[n.Treatment] > freedom[w.Treatment] {
				t.Fatalf("%+v: %s under %+v, and %s under %+v", c, w.Treatment, wide, n.Treatment, narrow)
			}
		}
		blocked := func(s Setting) []string { return s.Permissions.BlockInstructions }
		for _, b := range blocked(wide) {
			if !slices.Contains(blocked(narrow), b) {
				t.Fatalf("%q blocks no more", b)
			}
		}
	})
}

// without returns the list without one of its entries.
func without(t *rapid.T, list []string) []string {
	if len(list) == 0 {
		return list
	}
	i := rapid.IntRange(0, len(list)-1).Draw(t, "without")
	return slices.Delete(slices.Clone(list), i, i+1)
}
