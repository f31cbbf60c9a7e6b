package agent

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"aloft/internal/conversation"
)

// lines numbers the events of a run.
func lines(bodies ...Body) []Event {
	var events []Event
	for i, b := range bodies {
		events = append(events, Event{Seq: int64(i + 1), RunID: "run-1", Body: b})
	}
	return events
}

func called(id, name, args string) *TurnReplied {
	return &TurnReplied{Usage: conversation.Usage{Output: 1}, Message: conversation.Message{Role: conversation.Assistant, Blocks: []conversation.Block{
		{Call: &conversation.ToolCall{ID: id, Name: name, Args: json.RawMessage(args)}},
	}}}
}

func replied(text string) *TurnReplied {
	return &TurnReplied{Usage: conversation.Usage{Output: 1}, Message: conversation.Text(conversation.Assistant, text)}
}

func TestWithinIsKept(t *testing.T) {
	want := &Within{CallID: "c1", Body: &TextDelta{Text: "a"}}
	kind, data, err := Encode(want)
	if err != nil {
		t.Fatal(err)
	}
	if string(data) != `{"callId":"c1","kind":"text.delta","data":{"text":"a"}}` {
		t.Errorf("encoded as %s", data)
	}
	got, err := Decode(kind, data)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("decoded as %+v, %v", got, err)
	}
	for _, bad := range []string{`{"callId":"c1","kind":"task.event","data":{}}`, `{"kind":"no.such","data":{}}`, `[]`, `{"kind":"text.delta","data":5}`} {
		if _, err := Decode(kind, []byte(bad)); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}

// TestSubagentsHaveThreadsOfTheirOwn folds a run that uses one subagent twice.
// The subagent's messages must not be in the agent's conversation, but its
// usage must count.
func TestSubagentsHaveThreadsOfTheirOwn(t *testing.T) {
	in := func(call string, b Body) Body { return &Within{CallID: call, Body: b} }
	events := lines(
		&RunCreated{Prompt: conversation.Text(conversation.User, "go")},
		called("c1", TaskTool, `{}`),
		&TaskBegan{CallID: "c1", ID: "c1", Type: "debug", Prompt: "look"},
		in("c1", &TextDelta{Text: "I "}),
		in("c1", called("c1_0_0", "Write", `{"path":"a.go"}`)),
		in("c1", &CallJudged{CallID: "c1_0_0", Treatment: CallRun}),
		in("c1", &CallSent{CallID: "c1_0_0", BootID: "b"}),
		&Notice{Text: "the machine was lost"},
		in("c1", &CallDone{CallID: "c1_0_0", Text: "ok"}),
		in("c1", replied("it is a.go")),
		&TaskEnded{CallID: "c1", ID: "c1", Status: "completed"},
		&CallDone{CallID: "c1", Text: "it is a.go"},
		called("c2", TaskTool, `{}`),
		&TaskBegan{CallID: "c2", ID: "c1", Type: "debug", Prompt: "and now"},
	)
	s := Fold("bc-1", events[:9])
	sub := s.Subagent("c1")
	if sub == nil || !sub.Busy || sub.ToolCalls != 1 || !reflect.DeepEqual(sub.Changed, []string{"a.go"}) || sub.Next() != NextReply || s.Next() != NextCalls {
		t.Fatalf("in the middle: %+v", sub)
	}
	if got := sub.Messages[len(sub.Messages)-1].Blocks; len(got) != 2 || got[1].Text != "the machine was lost" {
		t.Errorf("the subagent was not told of the machine: %+v", got)
	}
	if s.Run.Turns != 1 || s.Run.Usage.Output != 2 || len(s.Messages) != 2 || s.Shown != "" {
		t.Errorf("the run has %d turns and %v, the agent's conversation %d messages", s.Run.Turns, s.Run.Usage, len(s.Messages))
	}
	s = Fold("bc-1", events)
	if s.Subagent("c1") != nil {
		t.Error("a subagent that works was found by its id, to be resumed")
	}
	sub = s.Subagent("c2")
	if len(s.Subagents) != 1 || !sub.Busy || sub.ID != "c1" || sub.Turns != 0 || sub.Usage.Output != 0 || sub.Next() != NextReply || len(sub.Messages) != 5 {
		t.Errorf("resumed: %+v", sub)
	}
	s = Fold("bc-1", append(events, Event{Seq: 15, RunID: "run-1", Body: &RunEnded{Status: Cancelled}}))
	if sub := s.Subagent("c1"); sub == nil || sub.Busy || s.Next() != NextNothing {
		t.Errorf("after the run: %+v", sub)
	}
}

// TestSubagentsAreForgotten checks that only the most recent subagents are
// kept.
func TestSubagentsAreForgotten(t *testing.T) {
	var all []Body
	for i := range maxKept + 2 {
		id := strings.Repeat("c", i+1)
		all = append(all, &TaskBegan{CallID: id, ID: id}, &TaskEnded{CallID: id, ID: id})
	}
	s := Fold("bc-1", lines(all...))
	if len(s.Subagents) != maxKept || s.Subagent("cc") != nil || s.Subagent("ccc") == nil {
		t.Errorf("%d are kept", len(s.Subagents))
	}
}

// TestRewindTakesSubagentsBack resumes a subagent after a rewind. The subagent
// must continue from its state at that turn.
func TestRewindTakesSubagentsBack(t *testing.T) {
	events := lines(
		&RunCreated{Prompt: conversation.Text(conversation.User, "go")},
		called("c1", TaskTool, `{}`), // 2
		&TaskBegan{CallID: "c1", ID: "c1", Prompt: "look"},
		&Within{CallID: "c1", Body: replied("one")},
		&TaskEnded{CallID: "c1", ID: "c1"}, &CallDone{CallID: "c1"},
		called("c2", TaskTool, `{}`), // 7
		&TaskBegan{CallID: "c2", ID: "c1", Prompt: "more"},
		&Within{CallID: "c2", Body: replied("two")},
		&TaskEnded{CallID: "c2", ID: "c1"}, &CallDone{CallID: "c2"},
		replied("done"), &RunEnded{Status: Finished},
	)
	p, err := RewindTo("bc-1", events, 2, "")
	if err != nil || p.To != 7 || p.Replaced != 2 {
		t.Fatalf("%+v, %v", p, err)
	}
	for _, e := range p.Events(1) {
		e.Seq, events = int64(len(events)+1), append(events, e)
		events[len(events)-1].Seq = int64(len(events))
	}
	s := Fold("bc-1", events)
	if sub := s.Subagent("c1"); sub == nil || sub.LastWords() != "one" || len(sub.Messages) != 2 {
		t.Errorf("got %+v", sub)
	}
}

// TestApprovalsOfSubagents checks that a subagent's requests can be answered
// like the agent's own.
func TestApprovalsOfSubagents(t *testing.T) {
	s := Fold("bc-1", lines(
		&RunCreated{Prompt: conversation.Text(conversation.User, "go")},
		called("c1", TaskTool, `{}`),
		&TaskBegan{CallID: "c1", ID: "c1", Prompt: "look"},
		&Within{CallID: "c1", Body: called("c1_0_0", "Shell", `{}`)},
		&ApprovalAsked{Approval: Approval{ID: "a1", CallID: "c1_0_0", Task: "c1", Tool: "Shell"}},
		&ApprovalAnswered{ApprovalID: "a1", Decision: AllowAgent, Entries: []string{"ls"}},
		&Within{CallID: "c1", Body: &CallJudged{CallID: "c1_0_0", Treatment: CallRefused}},
	))
	c := s.Find("c1_0_0")
	if c == nil || c.Answer == nil || c.Judged == nil || len(s.Granted) != 1 || len(s.Refused) != 1 || len(s.Agent.Approvals) != 0 {
		t.Errorf("%+v, granted %v, refused %v", c, s.Granted, s.Refused)
	}
}
