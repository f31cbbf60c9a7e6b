package api

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/conversation"
	"aloft/internal/fault"
)

func FuzzCreateAgent(f *testing.F) {
	f.Add(task)
	f.Add(prompt(`"agentId":"bc-00000000-0000-4000-8000-000000000001","model":{"id":"default"},"name":"n"`))
	f.Add(`{"prompt":{"text":"x","images":[{"data":"iVBORw0KGgo=","mimeType":"image/png"}]}}`)
	f.Add(`{"prompt":{"text":5},"repos":[{"url":"ext::x"}]`)
	f.Add("\xff\xfe{")
	s := &server{}
	f.Fuzz(func(t *testing.T, body string) {
		var in createAgentRequestJSON
		if err := decode([]byte(body), &in); err != nil {
			mustBeInvalid(t, err)
			return
		}
		m, err := in.Prompt.message()
		if err != nil {
			mustBeInvalid(t, err)
			return
		}
		c, err := s.created(&in, m.PlainText(), account.APIKey{UserID: 1})
		if err != nil {
			mustBeInvalid(t, err)
			return
		}
		if len(c.Repos) > 1 || c.Name == "" || c.Branch == "" && !c.WorkOnCurrentBranch {
			t.Errorf("%q makes %+v", body, c)
		}
		for _, b := range []agent.Body{c, &agent.RunCreated{Prompt: m}} {
			if _, _, err := agent.Encode(b); err != nil {
				t.Errorf("%q cannot be journaled: %v", body, err)
			}
		}
	})
}

func mustBeInvalid(t *testing.T, err error) {
	t.Helper()
	if f := faultOf(err); f.Kind != fault.KindInvalid || f.Message == "" {
		t.Errorf("not a fault of the request: %v", err)
	}
}

func FuzzCursor(f *testing.F) {
	f.Add(cursor(agentList, time.Unix(1, 5), "bc-1"))
	f.Add(cursor(runList, time.Unix(1, 5), "run-1"))
	f.Add("")
	f.Add("YSAxIA")
	f.Fuzz(func(t *testing.T, s string) {
		at, id, err := parseCursor(s, agentList)
		if err != nil {
			mustBeInvalid(t, err)
			return
		}
		if got := cursor(agentList, at, id); got != s {
			t.Errorf("%q is read as %v %q, which is %q", s, at, id, got)
		}
	})
}

func FuzzLastEventID(f *testing.F) {
	run := agent.Run{ID: "run-1", FirstSeq: 2, LastSeq: 1 << 40}
	f.Add(eventID(place{7, 3}, run.ID))
	f.Add(eventID(place{7, 3}, "run-2"))
	f.Add("00000000000007--0003-4e65d3fb")
	f.Add("x")
	f.Fuzz(func(t *testing.T, id string) {
		p, err := lastEvent(id, run)
		if err != nil {
			mustBeInvalid(t, err)
			return
		}
		if id != "" && (eventID(p, run.ID) != id || p.seq < run.FirstSeq || p.seq > run.LastSeq) {
			t.Errorf("%q is read as %v", id, p)
		}
	})
}

// Whatever a model or a machine says, the projector makes frames of it that a
// client can read, and the same ones twice.
func FuzzFrames(f *testing.F) {
	f.Add(uint64(1), "Hello", `{"a":[1,"x"]}`)
	f.Add(uint64(7), "\xff\r\n\n", `{"success":`)
	f.Fuzz(func(t *testing.T, seed uint64, text, raw string) {
		r := rand.New(rand.NewPCG(seed, 1))
		var events []agent.Event
		for i := range 12 {
			body := []agent.Body{
				&agent.TextDelta{Text: text}, &agent.ThinkingDelta{Text: text}, &agent.CallSent{CallID: text}, &agent.CallDelta{CallID: text, Stdout: raw},
				&agent.CallDone{CallID: text, Text: text, Output: json.RawMessage(raw)}, &agent.TurnReplied{Message: messageOf(text, raw)},
				&agent.ModelRetry{}, &agent.RunStarted{},
			}[r.IntN(8)]
			events = append(events, agent.Event{Seq: int64(i + 1), RunID: "r", Body: body})
		}
		events = append(events, agent.Event{Seq: 13, RunID: "r", Body: &agent.RunEnded{Status: agent.Finished, Result: text}})
		show := func() string {
			var out bytes.Buffer
			v := newView(agent.Run{ID: "r", Status: agent.Finished}, place{}, branches{})
			for _, e := range events {
				v.show(e, &out)
			}
			return out.String()
		}
		once := show()
		if once != show() {
			t.Error("the same events make other frames")
		}
		holdToSpecification(t, readEvents(t, strings.NewReader(once)))
	})
}

func messageOf(text, raw string) conversation.Message {
	m := conversation.Text(conversation.Assistant, text)
	m.Blocks = append(m.Blocks, conversation.Block{Call: &conversation.ToolCall{ID: text, Name: text, Args: json.RawMessage(raw)}})
	return m
}
