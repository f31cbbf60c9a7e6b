package agent

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func asked(id, call string) *ApprovalAsked {
	return &ApprovalAsked{Approval: Approval{ID: id, RunID: "run-1", CallID: call, Tool: "Shell", Subject: "rm x"}}
}

// An approval request is pending until its first answer or the end of its run.
func TestApprovalsWait(t *testing.T) {
	open := func(bodies ...Body) []string {
		s := Fold("bc-1", journal(append([]Body{&Created{}, prompt("do"), reply("", "a", "b")}, bodies...)...))
		var ids []string
		for _, p := range s.Agent.Approvals {
			ids = append(ids, p.ID)
		}
		return ids
	}
	for _, c := range []struct {
		name   string
		events []Body
		want   []string
	}{
		{"Two", []Body{asked("1", "a"), asked("2", "b")}, []string{"1", "2"}},
		{"Answered", []Body{asked("1", "a"), asked("2", "b"), &ApprovalAnswered{ApprovalID: "1", Decision: Deny}}, []string{"2"}},
		{"Another's", []Body{asked("1", "a"), &ApprovalAnswered{ApprovalID: "9", Decision: Deny}}, []string{"1"}},
		{"RunEnded", []Body{asked("1", "a"), &RunEnded{Status: Cancelled}}, nil},
	} {
		if diff := cmp.Diff(c.want, open(c.events...)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

func TestTheFirstAnswerCounts(t *testing.T) {
	s := Fold("bc-1", journal(&Created{}, prompt("do"), reply("", "a"), asked("1", "a"),
		&ApprovalAnswered{ApprovalID: "1", Decision: AllowAgent, Entries: []string{"rm x"}}, &ApprovalAnswered{ApprovalID: "1", Decision: Deny}))
	if c := s.Calls[0]; c.Answer == nil || c.Answer.Decision != AllowAgent {
		t.Errorf("the answer is %+v", c.Answer)
	}
	if diff := cmp.Diff([]Grant{{"Shell", "rm x"}}, s.Granted); diff != "" {
		t.Error(diff)
	}
}

// If a hook changes the arguments, the machine gets the changed arguments and
// the conversation keeps the model's.
func TestJudgedArgs(t *testing.T) {
	s := Fold("bc-1", journal(&Created{}, prompt("do"), reply("", "a"), &CallJudged{CallID: "a", Treatment: CallRun, By: "hook", Args: json.RawMessage(`{"command":"ls"}`)}))
	if got := string(s.Calls[0].Args); got != `{"command":"ls"}` {
		t.Errorf("the call has %s", got)
	}
	if got := string(s.Messages[1].Blocks[0].Call.Args); got != `{}` {
		t.Errorf("the conversation has %s", got)
	}
}

func TestRefusedCallsAreRememberedForTheRun(t *testing.T) {
	events := []Body{&Created{}, prompt("do"), reply("", "a"), &CallJudged{CallID: "a", Treatment: CallRefused, By: "classifier"}, &CallDone{CallID: "a", Error: true}}
	if diff := cmp.Diff([]RefusedCall{{"Shell", "{}"}}, Fold("bc-1", journal(events...)).Refused); diff != "" {
		t.Error(diff)
	}
	events = append(events, reply("done"), &RunEnded{Status: Finished}, prompt("more"))
	if got := Fold("bc-1", journal(events...)).Refused; got != nil {
		t.Errorf("the next run remembers %v", got)
	}
}
