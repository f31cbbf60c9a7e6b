package stream

import (
	"bytes"
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"aloft/internal/control/live"
)

// Wherever a call's arguments are cut off, the partial object is a prefix of
// the complete object.
func TestPartialObject(t *testing.T) {
	for _, whole := range []string{
		`{"path":"a/ü.go","contents":"one\ntwo \"three\" \\ \u00fc 😀 \ud83d\ude00 \ud83dx \u2028","n":-1.5e3,"b":true}`,
		` { "nested" : {"a":["}",{"b":"\\"}]} , "empty":"", "last" : "x" } `,
		`{"a":"[REDACTED]","n":null}`,
	} {
		var want map[string]any
		if err := json.Unmarshal([]byte(whole), &want); err != nil {
			t.Fatal(err)
		}
		for n := range len(whole) {
			for name, v := range partialObject(whole[:n]) {
				if part, ok := v.(string); ok && !strings.HasPrefix(want[name].(string), part) {
					t.Errorf("after %q %s is %q", whole[:n], name, part)
				} else if text, _ := json.Marshal(v); !ok && !jsonEqual(t, text, want[name]) {
					t.Errorf("after %q %s is %s", whole[:n], name, text)
				}
			}
		}
		if got := partialObject(whole); len(got) != len(want) {
			t.Errorf("of %s there is %v", whole, got)
		}
	}
	for _, none := range []string{"", "[", `"x"`, "{", "{]", `{"a"`, `{"a":`, `{"a":}`, `{a:1}`, `{"a":1x}`, "}", `{1:2}`} {
		if got := partialObject(none); len(got) != 0 {
			t.Errorf("of %s there is %v", none, got)
		}
	}
}

func jsonEqual(t *testing.T, text []byte, want any) bool {
	t.Helper()
	other, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var a, b any
	return json.Unmarshal(text, &a) == nil && json.Unmarshal(other, &b) == nil && string(mustJSON(t, a)) == string(mustJSON(t, b))
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func FuzzPartialObject(f *testing.F) {
	f.Add(`{"path":"a","contents":"\ud83d\ude00\n`)
	f.Fuzz(func(t *testing.T, text string) {
		before := partialObject(text)
		after := partialObject(text + `"}`)
		for name, v := range maps.All(before) {
			a, ok := v.(string)
			if b, is := after[name].(string); ok && is && !strings.HasPrefix(b, a) {
				t.Errorf("%q became %q", a, b)
			}
		}
	})
}

func TestDraftsOfOtherRuns(t *testing.T) {
	var board live.Board
	w := board.Watch("bc-1")
	defer w.Close()
	board.Write("bc-1", live.Piece{RunID: "run-2", CallID: "c1", Text: "{"})
	var out bytes.Buffer
	newDrafts("run-1", w, 0).show("x", &out)
	if out.Len() > 0 {
		t.Errorf("shown: %s", out.String())
	}
}
