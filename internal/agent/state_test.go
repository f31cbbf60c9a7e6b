package agent

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"aloft/internal/conversation"
)

// journal numbers the events as a store would.
func journal(bodies ...Body) []Event {
	var events []Event
	for i, b := range bodies {
		e := Event{Seq: int64(i + 1), RunID: "run-1", Time: time.Unix(int64(i), 0), Body: b}
		if _, ok := b.(*Created); ok {
			e.RunID = ""
		}
		events = append(events, e)
	}
	return events
}

func prompt(text string) *RunCreated {
	return &RunCreated{Prompt: conversation.Text(conversation.User, text)}
}

func reply(text string, calls ...string) *TurnReplied {
	m := conversation.Message{Role: conversation.Assistant}
	if text != "" {
		m.Blocks = append(m.Blocks, conversation.Block{Text: text})
	}
	for _, id := range calls {
		m.Blocks = append(m.Blocks, conversation.Block{Call: &conversation.ToolCall{ID: id, Name: "Shell", Args: json.RawMessage(`{}`)}})
	}
	return &TurnReplied{Message: m}
}

// The list of MCP servers counts as sent until a compaction removes it.
func TestServers(t *testing.T) {
	const list = "[MCP servers] none"
	for keep, want := range map[int]string{0: "", 1: list} {
		s := Fold("bc-1", journal(&Created{}, prompt("do"), &Notice{Text: "[MCP servers] old", Code: CodeMCP}, &Notice{Text: list, Code: CodeMCP}))
		if s.Servers != list {
			t.Fatalf("the list is %q", s.Servers)
		}
		s.Apply(Event{Seq: 100, Body: &Compacted{Summary: "s", Keep: keep}})
		if s.Servers != want {
			t.Errorf("after a compaction that keeps %d messages: %q, want %q", keep, s.Servers, want)
		}
	}
}

// If the machine returns a call, the server decides again about it and sends it
// again.
func TestCallReturned(t *testing.T) {
	s := Fold("bc-1", journal(&Created{}, prompt("do"), reply("", "a"),
		&CallJudged{CallID: "a", Treatment: CallRun}, &CallSent{CallID: "a", BootID: "x", Unhooked: true}))
	if c := s.Find("a"); !c.Sent || !c.Unhooked || c.BootID != "x" {
		t.Errorf("after it was sent: %+v", c)
	}
	s.Apply(Event{Seq: 100, Body: &CallReturned{CallID: "a"}})
	if c := s.Find("a"); c.Sent || c.Unhooked || c.BootID != "" || c.Judged != nil {
		t.Errorf("after it was returned: %+v", c)
	}
}

func TestNext(t *testing.T) {
	for _, c := range []struct {
		name   string
		events []Body
		want   Next
	}{
		{"NoRun", []Body{&Created{}}, NextNothing},
		{"PromptWantsReply", []Body{&Created{}, prompt("do")}, NextReply},
		{"CutReplyIsAskedAgain", []Body{&Created{}, prompt("do"), &TextDelta{"I wi"}}, NextReply},
		{"CallsAreWorked", []Body{&Created{}, prompt("do"), reply("", "a", "b"), &CallDone{CallID: "b"}}, NextCalls},
		{"ResultsWantReply", []Body{&Created{}, prompt("do"), reply("", "a"), &CallDone{CallID: "a"}}, NextReply},
		{"LastWordsFinish", []Body{&Created{}, prompt("do"), reply("done")}, NextFinish},
		{"EndedIsNothing", []Body{&Created{}, prompt("do"), reply("done"), &RunEnded{Status: Finished}}, NextNothing},
		{"FollowUpWantsReply", []Body{&Created{}, prompt("do"), reply("done"), &RunEnded{Status: Finished}, prompt("more")}, NextReply},
		{"NoticeAfterLastWordsWantsReply", []Body{&Created{}, prompt("do"), reply("done"), &Notice{Text: "wait"}}, NextReply},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Fold("bc-1", journal(c.events...)).Next(); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestEveryCallHasItsResultNext(t *testing.T) {
	s := Fold("bc-1", journal(&Created{}, prompt("do"), reply("", "a", "b", "c"), &CallSent{CallID: "c", BootID: "x"}, &Notice{Text: "machine was lost"},
		&CallDone{CallID: "b", Text: "B"}, &CallDone{CallID: "b", Text: "again"}, &RunEnded{Status: Cancelled}, prompt("go on")))
	want := []conversation.Block{
		{Result: &conversation.ToolResult{CallID: "a", Text: "never started: the run ended (CANCELLED) before the call ran, so it had no effect", Error: true}},
		{Result: &conversation.ToolResult{CallID: "b", Text: "B"}},
		{Result: &conversation.ToolResult{CallID: "c", Text: "not finished: the run ended (CANCELLED) while the call ran; it may have taken effect, in part or completely", Error: true}},
		{Text: "machine was lost"},
		{Text: "go on"},
	}
	if len(s.Messages) != 3 {
		t.Fatalf("got %d messages, want prompt, calls, results", len(s.Messages))
	}
	if d := cmp.Diff(want, s.Messages[2].Blocks); d != "" {
		t.Error(d)
	}
}

func TestCompactedKeepsTheTail(t *testing.T) {
	s := Fold("bc-1", journal(&Created{}, prompt("do"), reply("", "a"), &CallDone{CallID: "a", Text: "A"},
		reply("", "b"), &CallDone{CallID: "b", Text: "B"}, &Compacted{Summary: "so far", Keep: 2}))
	if len(s.Messages) != 3 || s.Messages[0].PlainText() != "so far" || s.Messages[1].Calls()[0].ID != "b" {
		t.Errorf("got %+v", s.Messages)
	}
}

func TestApplyOfTheSameEventTwiceIsOnce(t *testing.T) {
	events := journal(&Created{}, prompt("do"), &TextDelta{"one"})
	s := Fold("bc-1", append(events, events...))
	if s.Shown != "one" || len(s.Messages) != 1 {
		t.Errorf("got %q and %d messages", s.Shown, len(s.Messages))
	}
}
