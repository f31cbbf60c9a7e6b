package permit_test

import (
	"slices"
	"strings"
	"testing"

	"aloft/internal/policy/permit"
)

func TestAdd(t *testing.T) {
	for _, c := range []struct {
		name, file, list string
		entries          []string
		want             []string // of the list
		keeps            string   // text that must remain in the file
	}{
		{"Empty", "", "terminalAllowlist", []string{"make"}, []string{"make"}, ""},
		{"Comments", "{\n  // what we build with\n  \"terminalAllowlist\": [\"make\"], // more to come\n}", "terminalAllowlist", []string{"go test"}, []string{"make", "go test"}, "// what we build with"},
		{"OtherList", `{"mcpAllowlist":["a:b"]}`, "terminalAllowlist", []string{"make"}, []string{"make"}, `"a:b"`},
		{"Twice", `{"terminalAllowlist":["make"]}`, "terminalAllowlist", []string{"make", "x", "x"}, []string{"make", "x"}, ""},
		{"Nothing", `{"terminalAllowlist":["make"],}`, "terminalAllowlist", []string{"make"}, []string{"make"}, `["make"],}`},
		{"Null", `{"terminalAllowlist":null}`, "terminalAllowlist", []string{"make"}, []string{"make"}, ""},
		{"MCP", `{}`, "mcpAllowlist", []string{"gh:*"}, []string{"gh:*"}, ""},
		{"Quotes", `{}`, "terminalAllowlist", []string{`grep "a\b" x`}, []string{`grep "a\b" x`}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := permit.Add([]byte(c.file), c.list, c.entries)
			if err != nil {
				t.Fatal(err)
			}
			p, err := permit.Parse("permissions.json", out)
			if err != nil {
				t.Fatalf("%v in %s", err, out)
			}
			got := p.TerminalAllowlist
			if c.list == "mcpAllowlist" {
				got = p.MCPAllowlist
			}
			if !slices.Equal(got, c.want) || !strings.Contains(string(out), c.keeps) {
				t.Errorf("got %s", out)
			}
		})
	}
	for file, list := range map[string]string{`{"terminalAllowlist":"make"}`: "terminalAllowlist", `{`: "mcpAllowlist", `{}`: "autoRun"} {
		if out, err := permit.Add([]byte(file), list, []string{"x"}); err == nil {
			t.Errorf("%s with %s became %s", file, list, out)
		}
	}
}

func FuzzAdd(f *testing.F) {
	f.Add(`{"terminalAllowlist":["make"]/* why */}`, "go test")
	f.Add("", `"`)
	f.Fuzz(func(t *testing.T, file, entry string) {
		before, err := permit.Parse("f", []byte(file))
		out, addErr := permit.Add([]byte(file), "terminalAllowlist", []string{entry})
		if err != nil || addErr != nil {
			return
		}
		after, err := permit.Parse("f", out)
		if err != nil {
			t.Fatalf("%q became %q: %v", file, out, err)
		}
		if !slices.Equal(before.MCPAllowlist, after.MCPAllowlist) || !slices.Equal(before.BlockInstructions, after.BlockInstructions) {
			t.Fatalf("%q became %q: another list has changed", file, out)
		}
		for _, e := range after.TerminalAllowlist {
			if !slices.Contains(before.TerminalAllowlist, e) && e != entry {
				t.Fatalf("%q became %q: %q was not asked for", file, out, e)
			}
		}
	})
}
