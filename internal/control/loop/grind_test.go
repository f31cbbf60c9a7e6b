package loop_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aloft/internal/agent"
	"aloft/internal/allowance"
)

// TestGrind checks when work in rounds goes on, and how it ends.
func TestGrind(t *testing.T) {
	const list = `TodoWrite {"merge":false,"todos":[{"id":"a","content":"port a","status":"pending"},{"id":"b","content":"port b","status":"pending"},{"id":"c","content":"port c","status":"pending"}]}`
	closes := func(id, status string) step {
		return use(`TodoWrite {"merge":true,"todos":[{"id":"` + id + `","content":"port ` + id + `","status":"` + status + `"}]}`)
	}
	const start = `StartGrindExecution {"explanation":"port each file"}`
	for _, c := range []struct {
		name    string
		steps   []step
		turns   int64 // limit
		rounds  int
		outcome agent.Outcome
	}{
		{name: "ToTheEnd", steps: []step{use(list), use(start), closes("a", "completed"), say("one is done"), closes("b", "cancelled"), say("and one"), closes("c", "completed"), say("all")}, rounds: 2, outcome: agent.Done},
		{name: "StartedTwice", steps: []step{use(list), use(start), closes("a", "completed"), use(start), say("one"), say("no more")}, rounds: 1, outcome: agent.GaveUp},
		{name: "NoProgress", steps: []step{use(list), use(start), closes("a", "in_progress"), say("I began")}, rounds: 0, outcome: agent.GaveUp},
		{name: "NoProgressLater", steps: []step{use(list), use(start), closes("a", "completed"), say("one"), say("no more")}, rounds: 1, outcome: agent.GaveUp},
		{name: "NotStarted", steps: []step{use(list), closes("a", "completed"), say("one")}, rounds: 0, outcome: agent.Done},
		{name: "EmptyList", steps: []step{use(start), say("nothing")}, rounds: 0, outcome: agent.Done},
		{name: "Limit", steps: []step{use(list), use(start), closes("a", "completed"), say("one"), closes("b", "completed"), say("two")}, turns: 5, rounds: 1, outcome: agent.AtLimit},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, true)
			r.model.steps = c.steps
			r.allowed = allowance.Amount{Turns: c.turns}
			run := r.work(t.Context())
			var told []string
			for _, n := range bodies[*agent.Notice](r) {
				if n.Code == agent.CodeOpenTasks {
					told = append(told, n.Text)
				}
			}
			if run.Outcome != c.outcome || len(told) != c.rounds {
				t.Errorf("%s after %d more rounds, want %s after %d", run.Outcome, len(told), c.outcome, c.rounds)
			}
			if c.name == "ToTheEnd" && len(told) == 2 {
				for _, want := range []string{"still has 1 open items of 3", "[pending] c: port c"} {
					if !strings.Contains(told[1], want) || strings.Contains(told[1], "port b") {
						t.Errorf("the model was told %q", told[1])
					}
				}
			}
		})
	}
}

// In plan mode no round begins. A new run begins without rounds.
func TestGrindInPlanMode(t *testing.T) {
	const list = `TodoWrite {"merge":false,"todos":[{"id":"a","content":"port a","status":"pending"},{"id":"b","content":"port b","status":"completed"}]}`
	r := newRig(t, true)
	r.plan()
	r.model.steps = []step{use(list), use(`StartGrindExecution {}`), say("planned")}
	r.work(t.Context())
	if diff := cmp.Diff("plan mode allows no changes: call CreatePlan first", results(r)[1]); diff != "" {
		t.Error(diff)
	}
}
