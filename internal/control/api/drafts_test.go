package api

import (
	"bufio"
	"encoding/json"
	"strings"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/live"
)

// A client sees a call's arguments while the model writes them, under the
// call's later id. It can resume as if it had not seen them.
func TestStreamShowsWhatIsWritten(t *testing.T) {
	h := newHouse(t)
	h.api.stream.DraftsEvery = 0
	h.api.stream.Live = new(live.Board)
	id, runID := h.begin()
	h.append(id, runID, &agent.RunStarted{})
	write := func(p live.Piece) {
		p.RunID = runID
		h.api.stream.Live.Write(id, p)
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
			if text, err := json.Marshal(got); err != nil || string(text) != want {
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
	h.api.stream.Live.Clear(id, "")
	write(live.Piece{CallID: "c1", Name: "Write", Text: `{"path":"b"`}) // the server has retried the model request
	want(`{"argsTextDelta":"{\"path\":\"b\"","callId":"c1","modelCallId":"c1","toolCall":{"args":{"path":"b"},"type":"write"},"type":"partial-tool-call"}`)
	write(live.Piece{CallID: "c2", Name: "Shell", Text: `{"command":"` + strings.Repeat("x", 2048) + `","env":[` + strings.Repeat(`"y",`, 1024) + `"z"]}`})
	_, u := next()
	call, _ := u["toolCall"].(map[string]any)
	args, _ := call["args"].(map[string]any)
	if command, _ := args["command"].(string); len(command) > 1024+len("…") || args["env"] != nil || call["truncated"] == nil {
		t.Errorf("%d bytes of a long value are repeated, truncated: %v", len(command), call["truncated"])
	}

	path := streamOf(id, runID)
	h.append(id, runID, append(someWork()[1:], finish())...)
	h.api.stream.Live.Clear(id, "")
	h.api.stream.Live.Clear(id, "c1")
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
