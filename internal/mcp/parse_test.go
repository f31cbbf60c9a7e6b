package mcp

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestParse parses each file in testdata. The first section is an mcp.json. The
// section want contains the findings and then the servers.
func TestParse(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) < 8 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			servers, findings := Parse(a.Files[0].Name, a.Files[0].Data, Project)
			var b bytes.Buffer
			for _, f := range findings {
				b.WriteString(f.String() + "\n")
			}
			for _, s := range servers {
				text, err := json.Marshal(s)
				if err != nil {
					t.Fatal(err)
				}
				b.Write(append(text, '\n'))
			}
			if *update {
				a.Files = append(a.Files[:1], txtar.File{Name: "want", Data: b.Bytes()})
				if err := os.WriteFile(file, txtar.Format(a), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if len(a.Files) != 2 {
				t.Fatal("no want; run with -update")
			}
			if diff := cmp.Diff(string(a.Files[1].Data), b.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Findings contain only keys of a file, because values may be secrets.
func TestFindingsHoldNoValues(t *testing.T) {
	for _, file := range []string{
		`{"mcpServers": {"a": {"command": "x", "env": {"TOKEN": ["hunter2"]}}}}`,
		`{"mcpServers": {"a": {"url": "https://user:hunter2@x.example"}}}`,
		`{"mcpServers": {"a": {"url": "https://x.example", "headers": {"Authorization": "hunter2\n"}}}}`,
		`{"mcpServers": {"a": {"url": "https://x.example", "auth": {"CLIENT_ID": "", "CLIENT_SECRET": "hunter2"}}}}`,
		`{"mcpServers": {"a": {"url": "hunter2://"}}}`,
		`{"mcpServers": {"a": "hunter2"}}`,
	} {
		servers, findings := Parse("mcp.json", []byte(file), Project)
		if len(findings) == 0 || len(servers) != 0 {
			t.Errorf("%s: %d servers, no finding", file, len(servers))
		}
		if text, _ := json.Marshal(findings); strings.Contains(string(text), "hunter2") {
			t.Errorf("%s: %s", file, text)
		}
	}
}

func TestParseBounds(t *testing.T) {
	many := `{"mcpServers": {`
	for i := range MaxServers + 10 {
		many += `"s` + string(rune('a'+i%26)) + string(rune('a'+i/26)) + `": {"command": "x"},`
	}
	many += `}}`
	servers, findings := Parse("mcp.json", []byte(many), Project)
	if len(servers) != MaxServers || len(findings) != 1 {
		t.Errorf("%d servers, %v", len(servers), findings)
	}
	for name, data := range map[string]string{
		"deep":     strings.Repeat("[", 200_000),
		"deep too": `{"a":` + strings.Repeat(`["]",/*]*/`, 20_000),
		"long":     strings.Repeat(" ", MaxFile+1),
		"bytes":    "{\"\xff\": 1}",
		"empty":    " \n",
		"list":     "[1]",
	} {
		if servers, findings := Parse("mcp.json", []byte(data), Project); len(servers) != 0 || len(findings) != 1 || findings[0].Severity != "error" {
			t.Errorf("%s: %d servers, %v", name, len(servers), findings)
		}
	}
}

func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.txtar")
	for _, file := range files {
		if a, err := txtar.ParseFile(file); err == nil {
			f.Add(a.Files[0].Data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		servers, findings := Parse(".cursor/mcp.json", data, Project)
		if len(servers) > MaxServers || len(findings) > maxFindings {
			t.Fatalf("%d servers, %d findings", len(servers), len(findings))
		}
		for _, s := range servers {
			if p := s.Check(); len(p) > 0 {
				t.Fatalf("a server that may not be used was returned: %q %v", s.Name, p)
			}
			if s.Source != Project || s.Line() == "" {
				t.Fatalf("%+v", s)
			}
			if e, err := s.Expand(Variables{Workspace: "/workspace", UserHome: "/home/u", Env: func(string) (string, bool) { return "${env:A}", true }}); err == nil {
				if p := e.Check(); len(p) > 0 {
					t.Fatal(p)
				}
			}
		}
		for _, x := range findings {
			if x.Line < 1 || x.Column < 1 || x.Message == "" || strings.ContainsAny(x.String(), "\n\x00\x1b") {
				t.Fatalf("%+v", x)
			}
		}
	})
}
