package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"testing"

	"google.golang.org/protobuf/reflect/protoregistry"

	"aloft/internal/need"
	"aloft/internal/tool"
)

// TestCatalogueIsOfTheMessages compares the committed catalogue with the
// generated code, which lacks only the comments.
func TestCatalogueIsOfTheMessages(t *testing.T) {
	var wordless []tool.Spec
	for _, s := range tool.Catalogue() {
		s.Schema = withoutWords(t, s.Schema)
		wordless = append(wordless, s)
	}
	all, err := catalogue(protoregistry.GlobalFiles)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range all {
		s.Schema, s.Description = withoutWords(t, s.Schema), wordless[i].Description
		got, want := encoded(t, s), encoded(t, wordless[i])
		if !bytes.Equal(got, want) {
			t.Errorf("%s is stale, run make generate:\n%s\nthe messages say:\n%s", s.Name, want, got)
		}
	}
	if len(all) != len(wordless) {
		t.Errorf("%d tools in the catalogue, %d in the messages", len(wordless), len(all))
	}
}

// TestCatalogueIsFresh also compares the comments, if buf is installed.
func TestCatalogueIsFresh(t *testing.T) {
	const buf = "../node_modules/.bin/buf"
	need.File(t, "buf", buf)
	path, err := exec.LookPath(buf)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "build", "../..", "-o", "-")
	cmd.Stderr = os.Stderr
	image, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := run(bytes.NewReader(image), &got); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("../../internal/tool/catalogue.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Error("internal/tool/catalogue.json is stale: run make generate")
	}
}

func TestRunRefusesWhatIsNoImage(t *testing.T) {
	for _, in := range []string{"", "not an image", "\x0a\x03\x0a\x01x"} {
		if err := run(bytes.NewReader([]byte(in)), new(bytes.Buffer)); err == nil {
			t.Errorf("%q was accepted", in)
		}
	}
}

func TestCamelCase(t *testing.T) {
	for in, want := range map[string]string{"a": "a", "old_string": "oldString", "a_b_c": "aBC", "after_context": "afterContext"} {
		if got := camelCase(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func encoded(t *testing.T, s tool.Spec) []byte {
	t.Helper()
	b, err := encode([]tool.Spec{s})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// withoutWords removes the descriptions from a schema. It keeps a property
// whose name is description: its value is an object, not a text.
func withoutWords(t *testing.T, raw json.RawMessage) json.RawMessage {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	strip(v)
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func strip(v any) {
	switch v := v.(type) {
	case map[string]any:
		if _, isText := v["description"].(string); isText {
			delete(v, "description")
		}
		for _, one := range v {
			strip(one)
		}
	case []any:
		for one := range slices.Values(v) {
			strip(one)
		}
	}
}
