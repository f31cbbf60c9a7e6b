package agent

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aloft/internal/conversation"
)

// TestBugfixes folds reports of an agent and of its subagent. A refused report
// must not count, and a new run must begin without reports.
func TestBugfixes(t *testing.T) {
	call := func(id, args string) conversation.Message {
		return conversation.Message{Role: conversation.Assistant, Blocks: []conversation.Block{{Call: &conversation.ToolCall{ID: id, Name: BugfixTool, Args: json.RawMessage(args)}}}}
	}
	var events []Event
	add := func(bodies ...Body) {
		for _, b := range bodies {
			events = append(events, Event{Seq: int64(len(events) + 1), RunID: "run-1", Body: b})
		}
	}
	add(&Created{}, &RunCreated{Prompt: conversation.Text(conversation.User, "fix B-1 and B-2")}, &RunStarted{},
		&TurnReplied{Message: call("1", `{"results":[{"bug_id":"B-1","bug_title":"it leaks","verdict":"BUGFIX_VERDICT_COULD_NOT_FIX","explanation":"no test"},{"bug_id":"B-2","verdict":"BUGFIX_VERDICT_FALSE_POSITIVE","explanation":"as meant"}]}`)},
		&CallSent{CallID: "1"}, &CallDone{CallID: "1"},
		&TurnReplied{Message: call("2", `{"results":[{"bug_id":"B-1","verdict":"BUGFIX_VERDICT_FIXED","explanation":"`+strings.Repeat("x", 3000)+`"}]}`)},
		&CallSent{CallID: "2"}, &CallDone{CallID: "2"},
		&TurnReplied{Message: call("3", `{"results":[{"bug_id":"B-3","verdict":"BUGFIX_VERDICT_FIXED"}]}`)},
		&CallSent{CallID: "3"}, &CallDone{CallID: "3", Error: true})
	want := &Evidence{Bugfixes: []Bugfix{{ID: "B-1", Verdict: "fixed", Explanation: strings.Repeat("x", 2000)}, {ID: "B-2", Verdict: "not_a_bug", Explanation: "as meant"}}}
	if diff := cmp.Diff(want, Fold("bc-1", events).Evidence()); diff != "" {
		t.Error(diff)
	}
	add(&RunEnded{Status: Finished}, &RunCreated{Prompt: conversation.Text(conversation.User, "go on")})
	if got := Fold("bc-1", events).Evidence(); got != nil {
		t.Errorf("the next run has %+v", got)
	}
}
