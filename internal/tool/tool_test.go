package tool

import (
	"bytes"
	"encoding/json"
	"regexp"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

func TestCatalogue(t *testing.T) {
	names := regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`) // the form of names that every provider accepts
	seen := map[string]bool{}
	for _, s := range Catalogue() {
		t.Run(s.Name, func(t *testing.T) {
			if !names.MatchString(s.Name) || s.PublicName == "" || s.Description == "" {
				t.Errorf("%+v lacks something", s)
			}
			if s.Home != Guest && s.Home != Control {
				t.Errorf("home %q", s.Home)
			}
			if seen[s.Name] {
				t.Error("the name is given twice")
			}
			seen[s.Name] = true
			if found, ok := Lookup(s.Name); !ok || found.PublicName != s.PublicName {
				t.Errorf("Lookup gave %+v, %v", found, ok)
			}
			compile(t, s.Schema)
		})
	}
	for _, name := range []string{"Shell", "Read", "Write", "StrReplace", "Delete", "Glob", "Grep", "SemSearch", "ReadLints", "TodoWrite"} {
		if !seen[name] {
			t.Errorf("%s is missing", name)
		}
	}
	if _, ok := Lookup("NoSuchTool"); ok {
		t.Error("Lookup found a tool that is not there")
	}
}

func compile(t *testing.T, raw json.RawMessage) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSchemas(t *testing.T) {
	for _, c := range []struct {
		tool, args string
		valid      bool
	}{
		{"Shell", `{"command": "ls"}`, true},
		{"Shell", `{"command": "ls", "timeout": 1000, "is_background": true, "description": "d", "working_directory": "/"}`, true},
		{"Shell", `{}`, false},
		{"Shell", `{"command": 1}`, false},
		{"Shell", `{"command": "ls", "timeout": "1"}`, false},
		{"Shell", `{"command": "ls", "file_output_threshold_bytes": 1}`, false}, // the model may not set this
		{"Grep", `{"pattern": "x", "-A": 1, "-B": 1, "-C": 1, "-i": true, "output_mode": "count"}`, true},
		{"Grep", `{"pattern": "x", "output_mode": "lines"}`, false},
		{"Grep", `{"pattern": "x", "sort": "path"}`, false},
		{"TodoWrite", `{"merge": true, "todos": [{"id": "1", "content": "c", "status": "pending"}]}`, true},
		{"TodoWrite", `{"merge": true, "todos": [{"id": "1", "content": "c", "status": "done"}]}`, false},
		{"TodoWrite", `{"merge": true, "todos": [{"id": "1"}]}`, false},
	} {
		spec, ok := Lookup(c.tool)
		if !ok {
			t.Fatalf("no %s", c.tool)
		}
		args, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(c.args)))
		if err != nil {
			t.Fatal(err)
		}
		if err := compile(t, spec.Schema).Validate(args); (err == nil) != c.valid {
			t.Errorf("%s %s: %v", c.tool, c.args, err)
		}
	}
}

func TestDigestIsOfTheFile(t *testing.T) {
	if d := Digest(); len(d) != 64 || d != Digest() {
		t.Errorf("digest %q", d)
	}
}

func TestFailed(t *testing.T) {
	r := Failed("no %s", `"file"`)
	if r.Text != `no "file"` || !r.Error || string(r.Output) != `{"error":{"message":"no \"file\""}}` {
		t.Errorf("got %+v, output %s", r, r.Output)
	}
}

// TestPublicNames checks the names of calls in the public stream, which clients
// of the API know.
func TestPublicNames(t *testing.T) {
	for name, want := range map[string]string{
		"Shell": "shell", "Read": "read", "Write": "write", "StrReplace": "edit", "Delete": "delete", "LS": "ls", "Glob": "glob", "Grep": "grep",
		"SemSearch": "semSearch", "ReadLints": "readLints", "CallMcpTool": "mcp", "TodoWrite": "updateTodos", "CreatePlan": "createPlan",
		"GenerateImage": "generateImage", "RecordScreen": "recordScreen", "ComputerUse": "computerUse", "Task": "task",
	} {
		if spec, ok := Lookup(name); !ok || spec.PublicName != want {
			t.Errorf("%s is %q in the stream, want %q", name, spec.PublicName, want)
		}
	}
}
