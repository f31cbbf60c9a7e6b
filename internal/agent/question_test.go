package agent

import (
	"testing"

	"aloft/internal/conversation"
)

// Plan mode ends only when a person approves a plan.
func TestPlanModeLasts(t *testing.T) {
	const id = "bc-1"
	body := []Body{
		&Created{Name: "n"},
		&RunCreated{Prompt: conversation.Text(conversation.User, "plan it"), Mode: ModePlan},
		&TurnReplied{Message: conversation.Message{Role: conversation.Assistant, Blocks: []conversation.Block{{Call: &conversation.ToolCall{ID: "c", Name: PlanTool}}}}},
		&ApprovalAsked{Approval: Approval{ID: "q", CallID: "c", Tool: PlanTool}},
		&ApprovalAnswered{ApprovalID: "q", Decision: Deny},
		&CallDone{CallID: "c", Text: "no", Error: true},
		&RunEnded{Status: Finished},
		&RunCreated{Prompt: conversation.Text(conversation.User, "go on")},
	}
	var events []Event
	for i, b := range body {
		run := ""
		if i > 0 {
			run = "run-1"
		}
		events = append(events, Event{Seq: int64(i + 1), RunID: run, Body: b})
	}
	if s := Fold(id, events); s.Mode != ModePlan {
		t.Errorf("a follow-up is in the mode %q", s.Mode)
	}
	p, err := RewindTo(id, events[:7], 1, "")
	if err != nil || p.Mode != ModePlan {
		t.Errorf("what is tried again is in the mode %q (%v)", p.Mode, err)
	}
	events[4].Body = &ApprovalAnswered{ApprovalID: "q", Decision: AllowOnce}
	if s := Fold(id, events); s.Mode != ModeAgent {
		t.Errorf("after the plan is approved the mode is %q", s.Mode)
	}
}
