package notebook

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "rewrite golden files")

// TestEdits runs the cases in testdata. Each contains a notebook, an edit, and
// the expected notebook, which the result must equal byte for byte.
func TestEdits(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no cases", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			ar, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			parts := map[string][]byte{}
			for _, f := range ar.Files {
				parts[f.Name] = f.Data
			}
			var do struct {
				Cell                   int
				New                    bool
				Source, Kind, Language string
			}
			if err := json.Unmarshal(parts["do"], &do); err != nil {
				t.Fatal(err)
			}
			n, err := Parse(parts["before"])
			if err != nil {
				t.Fatal(err)
			}
			var got []byte
			if do.New {
				got, err = n.Insert(do.Cell, do.Source, do.Kind, do.Language)
			} else {
				got, err = n.SetSource(do.Cell, do.Source, do.Kind, do.Language)
			}
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, parts["after"]) {
				if !*update {
					t.Fatalf("got:\n%s\nwant:\n%s", got, parts["after"])
				}
				for i := range ar.Files {
					if ar.Files[i].Name == "after" {
						ar.Files[i].Data = got
					}
				}
				if err := os.WriteFile(file, txtar.Format(ar), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestParseOutputs(t *testing.T) {
	n, err := Parse([]byte(`{"nbformat":4,"nbformat_minor":5,"metadata":{"language_info":{"name":"R"}},"cells":[
	{"cell_type":"code","id":"a","source":["x\n","y"],"metadata":{"vscode":{"languageId":"sql"}},"outputs":[
	{"output_type":"stream","name":"stdout","text":["1\n","2"]},
	{"output_type":"error","ename":"E","evalue":"v","traceback":["\u001b[31mred\u001b[0m","end"]},
	{"output_type":"display_data","data":{"image/png":"aGk=\n","text/plain":"<Figure>"}},
	7]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	c := n.Cells[0]
	if n.Language != "r" || c.Source != "x\ny" || c.Language != "sql" || c.ID != "a" || len(c.Outputs) != 4 {
		t.Fatalf("%+v", n)
	}
	if c.Outputs[0].Text != "1\n2" || c.Outputs[1].Text != "red\nend" || !c.Outputs[1].Error || string(c.Outputs[2].Image) != "hi" || c.Outputs[2].Text != "<Figure>" {
		t.Errorf("%+v", c.Outputs)
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		``:                           "not JSON",
		`[]`:                         "not a JSON object",
		`{"cells":1}`:                "no list of cells",
		`{"cells":[1]}`:              "cell 0 is not an object",
		`{"nbformat":3,"cells":[]}`:  "nbconvert",
		`{"cells":[],}`:              "not JSON",
		"{\"cells\":[{}],\"x\":\"":   "not JSON",
		`{"cells":[{"source":"\x"}]`: "not JSON",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// FuzzEdit checks that after an edit of any notebook, the edited cell has the
// new source and the other cells are unchanged.
func FuzzEdit(f *testing.F) {
	f.Add([]byte(Empty), 0, "x")
	f.Add([]byte(`{"cells":[{"cell_type":"code","source":[],"outputs":[1],"execution_count":3,"metadata":{}},{"source":"a"}],"nbformat":4,"nbformat_minor":5}`), 1, "a\nb")
	f.Add([]byte(`{ "cells" : [ { } , {"source":"a","source":["b"],"metadata":7} ] }`), 0, "\u2028\\u2028\"")
	f.Add([]byte("\uFEFF{\r\n\t\"cells\": [\r\n\t]}"), 5, "é")
	f.Fuzz(func(t *testing.T, text []byte, at int, source string) {
		n, err := Parse(text)
		if err != nil {
			return
		}
		source = strings.ToValidUTF8(source, "?")
		kinds := []string{Code, Markdown, Raw}
		languages := []string{"python", "sql", "shell", "other", ""}
		kind, language := kinds[len(source)%3], languages[len(text)%5]
		at = max(0, at) % (len(n.Cells) + 1)
		after, err := n.Insert(at, source, kind, language)
		if err != nil {
			t.Fatal(err)
		}
		check(t, n, after, at, 1, source, kind)
		if at < len(n.Cells) {
			if after, err = n.SetSource(at, source, kind, language); err != nil {
				t.Fatal(err)
			}
			check(t, n, after, at, 0, source, kind)
		}
	})
}

func check(t *testing.T, before *Notebook, text []byte, at, added int, source, kind string) {
	t.Helper()
	after, err := Parse(text)
	if err != nil || len(after.Cells) != len(before.Cells)+added {
		t.Fatalf("%v\n%s", err, text)
	}
	if c := after.Cells[at]; c.Source != source || c.Kind != kind {
		t.Errorf("cell %d is %q of kind %q, want %q of kind %q\n%s", at, c.Source, c.Kind, source, kind, text)
	}
	for i, c := range before.Cells {
		j := i
		if i >= at {
			j += added
		}
		if j != at && !bytes.Equal(c.span.slice(before.text), after.Cells[j].span.slice(text)) {
			t.Errorf("cell %d changed", i)
		}
	}
}
