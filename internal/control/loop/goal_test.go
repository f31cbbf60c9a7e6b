package loop_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"

	"aloft/internal/agent"
	"aloft/internal/allowance"
	"aloft/internal/control/loop"
	"aloft/internal/control/model"
	"aloft/internal/control/store"
	"aloft/internal/conversation"
)

// judge is a model that decides that the goal is met if the diff contains a
// certain word.
type judge struct {
	asked []string
	reply string // returned instead of a verdict, unless it is ""
}

func (j *judge) Stream(_ context.Context, req model.Request) iter.Seq2[model.Event, error] {
	text := req.Messages[0].PlainText()
	j.asked = append(j.asked, text)
	reply := j.reply
	if reply == "" {
		reply = fmt.Sprintf(`{"met": %v, "missing": "say it in a file"}`, strings.Contains(text, "+mended"))
	}
	return func(yield func(model.Event, error) bool) {
		yield(model.Event{Done: &model.Reply{Stop: model.StopEnd, Message: conversation.Text(conversation.Assistant, reply), Usage: conversation.Usage{Input: 100}}}, nil)
	}
}

// withGoal gives the rig's run a goal, which is met once the project is fixed.
func withGoal(r *rig, p *project) (*rig, *judge) {
	j := &judge{}
	r.record(&agent.RunEnded{Status: agent.Finished})
	r.run = agent.NewRunID()
	goal := "fix everything"
	r.record(&agent.RunCreated{Prompt: conversation.Text(conversation.User, "fix it"), Goal: &goal})
	before := r.change
	r.change = func(c *loop.Config) {
		c.Models.Fast = "judge"
		c.Models.Named = func(string) (model.Model, model.Info, error) { return j, model.Info{ID: "judge"}, nil }
		c.Diff = func(context.Context, *agent.State, int) (string, bool, error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			return map[bool]string{true: "+mended", false: "+tried"}[p.fixed], false, nil
		}
		if before != nil {
			before(c)
		}
	}
	return r, j
}

// If the goal is not met, the model is sent back to work with the list of what
// is missing. The judging model gets the task, the diff and the checks, but
// none of the agent's text.
func TestGoal(t *testing.T) {
	r, p := checkedRig(t, []string{"make lint"}, nil)
	r, j := withGoal(r, p)
	r.model.steps = []step{use(`Shell {"command":"edit"}`), say("I did it"), use(`Write {"path":"a","contents":"4"}`), say("fixed")}
	run := r.work(t.Context())
	if run.Outcome != agent.Done || run.Evidence.Goal == nil || !run.Evidence.Goal.Met || run.Evidence.Goal.Goal != "fix everything" || len(run.Branches) != 1 || run.Branches[0].Commit != "v2" {
		t.Errorf("%+v, %+v", run, run.Evidence)
	}
	if run.Usage.Input != 220 {
		t.Errorf("the verdicts are not in the usage: %+v", run.Usage)
	}
	heard := r.model.requests[2].Messages
	if words := heard[len(heard)-1].PlainText(); !strings.Contains(words, "fix everything") || !strings.Contains(words, "say it in a file") {
		t.Errorf("the model was told %q", words)
	}
	if len(j.asked) != 2 || strings.Contains(j.asked[0], "I did it") || !strings.Contains(j.asked[0], "fix it") || !strings.Contains(j.asked[0], "+tried") || !strings.Contains(j.asked[0], "make lint") {
		t.Errorf("the judge was asked %q", j.asked)
	}
}

// TestOutcomesOfGoals checks the status and the outcome of runs with a goal.
func TestOutcomesOfGoals(t *testing.T) {
	edit := use(`Shell {"command":"edit"}`)
	for _, c := range []struct {
		name    string
		checks  []string
		steps   []step
		change  func(r *rig, j *judge)
		outcome agent.Outcome
		asked   int
	}{
		{"NeverMet", nil, []step{edit, say("a"), edit, say("b"), edit, say("c"), edit, say("d")}, nil, agent.Partly, 4},
		{"NothingChanged", nil, []step{edit, say("a"), say("it is done")}, nil, agent.GaveUp, 2},
		{"NoVerdict", nil, []step{edit, say("a")}, func(_ *rig, j *judge) { j.reply = "It looks good to me." }, agent.Blocked, 1},
		{"MetHasToBeSaid", nil, []step{edit, say("a")}, func(_ *rig, j *judge) { j.reply = "{}" }, agent.Blocked, 1},
		{"ChecksFail", []string{"make test"}, []step{edit, say("a"), say("b")}, nil, agent.GaveUp, 0},
		{"Limit", nil, []step{edit, say("a")}, func(r *rig, _ *judge) { r.allowed = allowance.Amount{Turns: 2} }, agent.AtLimit, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, p := checkedRig(t, c.checks, nil)
			r, j := withGoal(r, p)
			r.model.steps = c.steps
			if c.change != nil {
				c.change(r, j)
			}
			run := r.work(t.Context())
			if run.Outcome != c.outcome || len(j.asked) != c.asked || len(run.Branches) != 1 {
				t.Errorf("%q after %d verdicts: %+v, %+v", run.Outcome, len(j.asked), run, run.Failure)
			}
		})
	}
}

// TestEveryAppendOfGoals makes each append of a run with a goal fail in turn.
// The model must be sent back once.
func TestEveryAppendOfGoals(t *testing.T) {
	for name, after := range map[string]bool{"Before": false, "After": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first := newRig(t, true)
				for n := 1; ; n++ {
					r := first.another(true)
					r.record(&agent.RunEnded{Status: agent.Finished})
					r, p := checked(r, nil, nil)
					r, _ = withGoal(r, p)
					c := r.config()
					c.Models.Model = played{own: []step{use(`Shell {"command":"edit"}`), say("done"), use(`Write {"path":"a","contents":"4"}`), say("fixed")}}
					c.Journal = &mortal{Journal: r.store, dies: func(i int, _ store.Append) bool { return i == n }, after: after}
					over := loop.Run(t.Context(), r.id, c) == nil
					if c.Journal = r.store; !over {
						if err := loop.Run(t.Context(), r.id, c); err != nil {
							t.Fatalf("append %d: %v", n, err)
						}
					}
					run, err := r.store.Run(t.Context(), r.id, r.run)
					sentBack := 0
					for _, b := range bodies[*agent.Notice](r) {
						if b.Code == agent.CodeGoal {
							sentBack++
						}
					}
					if verdicts := len(bodies[*agent.GoalJudged](r)); err != nil || run.Outcome != agent.Done || run.Result != "fixed" || sentBack != 1 || verdicts != 2 || len(bodies[*agent.Pushed](r)) != 2 {
						t.Errorf("append %d: %+v, %v; %d verdicts, sent back %d times", n, run, err, verdicts, sentBack)
					}
					if over {
						return
					}
				}
			})
		})
	}
}
