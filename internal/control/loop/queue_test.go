package loop_test

import (
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/loop"
	"aloft/internal/control/store"
	"aloft/internal/conversation"
)

func (r *rig) queue(runID, words string) {
	r.append(store.Append{AgentID: r.id, Events: []agent.Event{{Body: &agent.Queued{RunID: runID, RunCreated: agent.RunCreated{Prompt: conversation.Text(conversation.User, words)}}}}})
}

func TestQueueGoesOn(t *testing.T) {
	r := newRig(t, false)
	first := r.run
	r.queue("run-2", "then this")
	r.queue("run-3", "and this")
	r.model.steps = []step{say("one"), say("two"), say("three")}
	for _, id := range []string{first, "run-2", "run-3"} {
		r.run = id
		if got := r.work(t.Context()); got.Status != agent.Finished {
			t.Fatalf("%s is %s", id, got.Status)
		}
	}
	if n := len(r.model.requests); n != 3 {
		t.Fatalf("the model was asked %d times", n)
	}
	last := r.model.requests[2].Messages
	if got := last[len(last)-1].PlainText(); got != "and this" {
		t.Errorf("it was asked %q", got)
	}
	if err := loop.Run(t.Context(), r.id, r.config()); err != nil || len(r.model.requests) != 3 {
		t.Errorf("%v, and asked %d times", err, len(r.model.requests))
	}
}

// After a run is cancelled or fails, the next queued prompt starts, unless the
// agent is archived.
func TestQueueAfterACancel(t *testing.T) {
	for _, archived := range []bool{false, true} {
		r := newRig(t, false)
		r.queue("run-2", "then this")
		r.record(&agent.CancelAsked{Reason: "by hand"})
		if archived {
			r.append(store.Append{AgentID: r.id, Events: []agent.Event{{Body: &agent.Archived{Archived: true}}}})
		}
		if got := r.work(t.Context()); got.Status != agent.Cancelled {
			t.Fatalf("it is %s", got.Status)
		}
		a, err := r.store.Agent(t.Context(), r.id)
		if err != nil || (a.LatestRunID == "run-2") == archived || (len(a.Queue) == 1) != archived {
			t.Errorf("archived %v: %v, latest is %s, queue %v", archived, err, a.LatestRunID, a.Queue)
		}
	}
}
