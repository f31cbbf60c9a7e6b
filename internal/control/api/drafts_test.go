package api

import (
	"bufio"
	"bytes"
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/live"
)

// Wherever a call is cut off, the partial object is a prefix of the complete
// one.
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

// A client sees a call's arguments while the model writes them, under the id
// that the call gets later, and can resume as if it had not seen them.
func TestStreamShowsWhatIsWritten(t *testing.T) {
	h := newHouse(t)
	h.api.draftsEvery = 0
	h.api.Live = new(live.Board)
	id, runID := h.begin()
	h.append(id, runID, &agent.RunStarted{})
	write := func(p live.Piece) {
		p.RunID = runID
		h.api.Live.Write(id, p)
	}
	write(live.Piece{CallID: "c1", Name: "Write", Text: `{"path":"a.go","contents":"pack`})
	r := bufio.NewReader(h.open(streamOf(id, runID), "").Body)
	next := func() (e event, u map[string]any) {
		t.Helper()
		for {
			e, err := readEvent(r)
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(e.data), &u); err != nil {
				t.Fatal(err)
			}
			if kind, _ := u["type"].(string); strings.HasPrefix(kind, "partial-") || strings.HasPrefix(kind, "tool-call-") {
				return e, u
			}
			u = nil
		}
	}
	want := func(wants ...string) (last event) {
		t.Helper()
		for _, want := range wants {
			e, got := next()
			if text := string(mustJSON(t, got)); text != want {
				t.Errorf("got  %s\nwant %s", text, want)
			}
			last = e
		}
		return last
	}
	last := want(`{"argsTextDelta":"{\"path\":\"a.go\",\"contents\":\"pack","callId":"c1","modelCallId":"c1","toolCall":{"args":{"contents":"pack","path":"a.go"},"type":"write"},"type":"partial-tool-call"}`,
		`{"callId":"c1","modelCallId":"c1","toolCallDelta":{"editToolCallDelta":{"contents":"pack"}},"type":"tool-call-delta"}`)
	write(live.Piece{CallID: "c1", Name: "Write", Text: `age a\n"}`})
	want(`{"argsTextDelta":"age a\\n\"}","callId":"c1","modelCallId":"c1","toolCall":{"args":{"contents":"package a\n","path":"a.go"},"type":"write"},"type":"partial-tool-call"}`,
		`{"callId":"c1","modelCallId":"c1","toolCallDelta":{"editToolCallDelta":{"contents":"age a\n"}},"type":"tool-call-delta"}`)
	write(live.Piece{CallID: "s1", Task: "c1", Name: "Shell", Text: `{"command":`})
	want(`{"callId":"c1","modelCallId":"c1","taskUpdate":{"argsTextDelta":"{\"command\":","callId":"s1","modelCallId":"s1","toolCall":{"args":{},"type":"shell"},"type":"partial-tool-call"},"type":"tool-call-delta"}`)
	h.api.Live.Clear(id, "")
	write(live.Piece{CallID: "c1", Name: "Write", Text: `{"path":"b"`}) // the model request was retried
	want(`{"argsTextDelta":"{\"path\":\"b\"","callId":"c1","modelCallId":"c1","toolCall":{"args":{"path":"b"},"type":"write"},"type":"partial-tool-call"}`)
	write(live.Piece{CallID: "c2", Name: "Shell", Text: `{"command":"` + strings.Repeat("x", 2*maxDraft) + `","env":[` + strings.Repeat(`"y",`, maxDraft) + `"z"]}`})
	_, u := next()
	call, _ := u["toolCall"].(map[string]any)
	args, _ := call["args"].(map[string]any)
	if command, _ := args["command"].(string); len(command) > maxDraft+len("…") || args["env"] != nil || call["truncated"] == nil {
		t.Errorf("%d bytes of a long value are repeated, truncated: %v", len(command), call["truncated"])
	}

	path := streamOf(id, runID)
	h.append(id, runID, append(someWork()[1:], finish())...)
	h.api.Live.Clear(id, "")
	h.api.Live.Clear(id, "c1")
	for again, all := range map[string][]event{"": readEvents(t, h.open(path, "").Body), last.id: readEvents(t, h.open(path, last.id).Body)} {
		if e := all[len(all)-1]; e.name != "done" {
			t.Errorf("after %q the stream ends with %+v", again, e)
		}
		for _, e := range all {
			if strings.Contains(e.data, "partial-tool-call") {
				t.Errorf("after %q: %+v", again, e)
			}
		}
	}
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
