package environment_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/tools/txtar"

	"aloft/internal/environment"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestFiles parses the files in testdata and compares each result with the
// section "want" of the same file.
func TestFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) < 40 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			ar, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			e, findings := environment.Parse(ar.Files[0].Name, ar.Files[0].Data)
			got := describe(e, findings)
			if *update {
				ar.Files = []txtar.File{ar.Files[0], {Name: "want", Data: []byte(got)}}
				if err := os.WriteFile(file, txtar.Format(ar), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if len(ar.Files) != 2 {
				t.Fatal("there is no section want; run with -update and read what it writes")
			}
			if d := cmp.Diff(string(ar.Files[1].Data), got); d != "" {
				t.Error(d)
			}
			checkAgainstSchema(t, e, findings)
		})
	}
}

func describe(e environment.Environment, findings environment.Findings) string {
	var b strings.Builder
	for _, f := range findings {
		fmt.Fprintln(&b, f)
	}
	text, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		panic(err)
	}
	b.Write(text)
	b.WriteByte('\n')
	for _, l := range e.Explain() {
		fmt.Fprintf(&b, "%s: %s\n", l.What, l.Says)
	}
	return b.String()
}

// checkAgainstSchema checks that the parser's findings agree with the JSON
// schema for editors.
func checkAgainstSchema(t *testing.T, e environment.Environment, findings environment.Findings) {
	t.Helper()
	if e.Build != nil && strings.HasPrefix(e.Build.Context, "..") {
		t.Errorf("context %q leaves the repository", e.Build.Context)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(environment.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("environment.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("environment.json")
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(value); err != nil {
		t.Errorf("what was read does not fit the schema: %v (findings: %v)", err, findings)
	}
}

// TestKeysAreThoseOfTheType checks that the table contains a key for every
// field of the type, and that every example parses without findings and changes
// the environment.
func TestKeysAreThoseOfTheType(t *testing.T) {
	empty, _ := environment.Parse(environment.Files[0], []byte("{}"))
	for _, k := range environment.Keys() {
		e, findings := environment.Parse(environment.Files[0], []byte(fmt.Sprintf("{%q: %s}", k.Name, k.Example)))
		if len(findings) > 0 && k.Name != "egressAllowlist" { // this key warns without a mode
			t.Errorf("the example of %s: %v", k.Name, findings)
		}
		if e.Digest() == empty.Digest() && k.Name != "$schema" && k.Name != "disableAllMcpServers" {
			t.Errorf("the example of %s changes nothing: the type has no field for it", k.Name)
		}
	}
}

func TestSize(t *testing.T) {
	fill := func(n int) []byte {
		head, tail := `{"install": "true", // `, "\n}"
		return []byte(head + strings.Repeat("x", n-len(head)-len(tail)) + tail)
	}
	if e, f := environment.Parse(environment.Files[0], fill(environment.MaxSize)); e.Install != "true" || len(f) > 0 {
		t.Errorf("1 MiB: %+v %v", e, f)
	}
	if e, f := environment.Parse(environment.Files[0], fill(environment.MaxSize+1)); e.Install != "" || f.Worst() != environment.Error {
		t.Errorf("more than 1 MiB: %+v %v", e, f)
	}
	deep := strings.Repeat("[", environment.MaxSize/2) + strings.Repeat("]", environment.MaxSize/2)
	if _, f := environment.Parse(environment.Files[0], []byte(deep)); f.Worst() != environment.Error {
		t.Errorf("half a million lists in one another: %v", f)
	}
	many := "{" + strings.Repeat("\"x\": 1,\n", 100_000) + "}"
	if _, f := environment.Parse(environment.Files[0], []byte(many)); len(f) > 101 {
		t.Errorf("%d findings", len(f))
	}
}

func TestEncodings(t *testing.T) {
	for name, c := range map[string]struct {
		data  string
		worst environment.Severity
	}{
		"BOM":           {"\xef\xbb\xbf{\"install\": \"true\"}", ""},
		"UTF-16":        {"\xff\xfe{\x00}\x00", environment.Error},
		"Latin1":        {"{\"name\": \"caf\xe9\", \"install\": \"true\"}", environment.Error},
		"CRLF":          {"{\r\n\"install\": \"true\",\r\n}\r\n", ""},
		"OldMacCR":      {"{\r\"install\": \"true\"}", ""},
		"Null":          {"null", environment.Error},
		"LoneSurrogate": {`{"name": "\ud800", "install": "true"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e, f := environment.Parse(environment.Files[0], []byte(c.data))
			if f.Worst() != c.worst {
				t.Errorf("findings %v; want the worst to be %q", f, c.worst)
			}
			if name != "UTF-16" && name != "Null" && e.Install != "true" {
				t.Errorf("install is %q", e.Install)
			}
		})
	}
}

// TestLineEnds checks all three kinds of line ends, also in comments.
func TestLineEnds(t *testing.T) {
	for _, end := range []string{"\n", "\r\n", "\r"} {
		e, findings := environment.Parse(".cursor/environment.json", []byte("// c"+end+"{"+end+`"install": "make" // d`+end+"}"+end))
		if e.Install != "make" || len(findings) > 0 {
			t.Errorf("with %q: %+v, %v", end, e, findings)
		}
	}
}

func TestTwoHundredTerminals(t *testing.T) {
	var b strings.Builder
	for i := range 200 {
		fmt.Fprintf(&b, `{"name": "t%d", "command": "sleep %d"},`, i%50, i)
	}
	e, _ := environment.Parse(environment.Files[0], []byte(`{"terminals": [`+b.String()+`]}`))
	names := map[string]bool{}
	for _, terminal := range e.Terminals {
		names[terminal.Name] = true
	}
	if len(e.Terminals) != 200 || len(names) != 200 {
		t.Errorf("%d terminals with %d names", len(e.Terminals), len(names))
	}
}

// TestBuildDigest checks that the digest depends on everything that affects a
// build, and not on terminals, ports and similar keys.
func TestBuildDigest(t *testing.T) {
	parse := func(s string) string {
		e, f := environment.Parse(environment.Files[0], []byte(s))
		if len(f) > 0 {
			t.Fatal(f)
		}
		return e.BuildDigest()
	}
	was := parse(`{"install": "npm ci", "user": "node", "env": {"A": "1"}}`)
	if got := parse(`/* c */ {"user": "node", "env": {"A": 1}, "install": "npm ci", "name": "x", "ports": [1], "start": "y", "terminals": []}`); got != was {
		t.Error("order, comments, ports or terminals make a build stale")
	}
	for _, other := range []string{
		`{"install": "npm i", "user": "node", "env": {"A": "1"}}`, `{"install": "npm ci", "env": {"A": "1"}}`,
		`{"install": "npm ci", "user": "node"}`, `{"install": "npm ci", "user": "node", "env": {"A": "1"}, "image": "x"}`,
	} {
		if parse(other) == was {
			t.Errorf("%s has the same digest", other)
		}
	}
}

func TestSchemaIsTheOneInTheDocs(t *testing.T) {
	golden(t, "../../docs/reference/environment.schema.json", string(environment.Schema()))
}

const marks = "<!-- keys: made by go test ./internal/environment -update -->\n"

// TestGuideHasEveryKey compares the guide's tables of keys with the table in
// Go.
func TestGuideHasEveryKey(t *testing.T) {
	const file = "../../docs/guide/environments.md"
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(page), marks)
	if len(parts) != 3 {
		t.Fatalf("%s has %d marks %q; want 2", file, len(parts)-1, marks)
	}
	var b strings.Builder
	table := func(keys []environment.Key) {
		b.WriteString("| key | value | meaning | example |\n|---|---|---|---|\n")
		for _, k := range keys {
			fmt.Fprintf(&b, "| `%s` | %s | %s | `%s` |\n", k.Name, k.Type(), k.Meaning, k.Example)
		}
	}
	table(environment.Keys())
	for _, k := range environment.Keys() {
		if k.Keys != nil {
			fmt.Fprintf(&b, "\nIn `%s`:\n\n", k.Name)
			table(k.Keys)
		}
	}
	golden(t, file, parts[0]+marks+b.String()+marks+parts[2])
}

func golden(t *testing.T, file, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Errorf("%s is stale; run go test ./internal/environment -update\n%s", file, d)
	}
}

// FuzzParse checks that every input yields a valid environment that can be
// shown in a terminal safely, and that its canonical form parses to the same
// environment.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		ar, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(ar.Files[0].Data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		e, findings := environment.Parse(".cursor/environment.json", data)
		for _, finding := range findings {
			if s := finding.String(); strings.IndexFunc(s, unicode.IsControl) >= 0 || finding.Line < 1 || finding.Column < 1 {
				t.Errorf("finding %q", s)
			}
		}
		for _, l := range e.Explain() {
			if strings.IndexFunc(l.Says, unicode.IsControl) >= 0 {
				t.Errorf("explains %q", l.Says)
			}
		}
		names := map[string]bool{}
		for _, terminal := range e.Terminals {
			if terminal.Command == "" || names[terminal.Name] || strings.ContainsAny(terminal.Name, "\n\x00") {
				t.Errorf("terminal %+v", terminal)
			}
			names[terminal.Name] = true
		}
		if b := e.Build; b != nil {
			for _, p := range []string{b.Dockerfile, b.Context} {
				if p != "" && !filepath.IsLocal(p) {
					t.Errorf("%q leaves the repository", p)
				}
			}
		}
		text, err := json.Marshal(e)
		if err != nil || len(text) > environment.MaxSize {
			return
		}
		again, findings := environment.Parse("environment.json", text) // paths are now relative to the root
		if findings.Worst() == environment.Error && e.AgentCanUpdateSnapshot == nil {
			t.Errorf("of its own form: %v\n%s", findings, text)
		}
		if b := e.Build; b == nil && again.Digest() != e.Digest() {
			t.Errorf("changed by reading it again:\n%s", cmp.Diff(e, again))
		}
	})
}

func TestVariables(t *testing.T) {
	const chrome = "/opt/chrome"
	for _, c := range []struct {
		text string
		want map[string]string
	}{
		{`{}`, map[string]string{}},
		{`{"env": {"A": "1"}}`, map[string]string{"A": "1"}},
		{`{"chromeExecutablePath": "/opt/chrome"}`, map[string]string{"CHROME_EXECUTABLE_PATH": chrome, "CHROME_PATH": chrome, "PUPPETEER_EXECUTABLE_PATH": chrome}},
		{`{"chromeExecutablePath": "/opt/chrome", "env": {"CHROME_PATH": "/mine"}}`, map[string]string{"CHROME_EXECUTABLE_PATH": chrome, "CHROME_PATH": "/mine", "PUPPETEER_EXECUTABLE_PATH": chrome}},
	} {
		e, _ := environment.Parse(environment.Files[0], []byte(c.text))
		if got := e.Variables(); !maps.Equal(got, c.want) {
			t.Errorf("%s has the variables %v", c.text, got)
		}
	}
}
