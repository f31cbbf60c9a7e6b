package loop_test

import (
	"strings"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/allowance"
	"aloft/internal/control/loop/remote"
	"aloft/internal/fault"
)

func hookRefuses(op, said string) error {
	return fault.Conflict("%s: the project's git hook refused: %s", op, said).Named("hook_failed")
}

// The model gets the messages of failing git hooks, and fixes the problem.
func TestAHooksRefusalIsFixed(t *testing.T) {
	for _, op := range []string{"commit", "push"} {
		t.Run(op, func(t *testing.T) {
			r := newRig(t, true)
			fixed := false
			r.machine.hook = func(what string, skipHooks bool) (remote.Delivered, error) {
				if skipHooks {
					t.Error("the hooks are passed over")
				}
				if what == op && !fixed {
					fixed = true
					return remote.Delivered{}, hookRefuses(op, "a.go:3: not formatted")
				}
				return remote.Delivered{Commit: "c0ffee", Made: what == "commit"}, nil
			}
			r.model.steps = []step{say("done"), use(`Shell {"command":"gofmt -w a.go"}`), say("fixed")}
			run := r.work(t.Context())
			if run.Status != agent.Finished || run.Result != "fixed" || len(run.Branches) != 1 {
				t.Errorf("%+v", run)
			}
			heard := r.model.requests[1].Messages
			if words := heard[len(heard)-1].PlainText(); !strings.Contains(words, "a.go:3: not formatted") || !strings.Contains(words, "do not disable the hook") {
				t.Errorf("the model was told %q", words)
			}
			for _, b := range bodies[*agent.Pushed](r) {
				if b.Unhooked != "" {
					t.Errorf("pushed %+v", b)
				}
			}
		})
	}
}

// If git hooks keep failing, they are skipped as a last resort, and the run's
// result says so.
func TestHooksArePassedOverAsALastResort(t *testing.T) {
	r := newRig(t, true)
	skipped := []string{}
	r.machine.hook = func(what string, skipHooks bool) (remote.Delivered, error) {
		if !skipHooks {
			return remote.Delivered{}, hookRefuses(what, "no")
		}
		skipped = append(skipped, what)
		return remote.Delivered{Commit: "c0ffee", Made: what == "commit", Note: "the " + what + " hooks did not let it pass"}, nil
	}
	r.model.steps = []step{say("one"), say("two"), say("three"), say("four")}
	run := r.work(t.Context())
	if want := "four\n\nDelivered without the project's git hooks: the commit hooks did not let it pass; the push hooks did not let it pass."; run.Status != agent.Finished || run.Result != want {
		t.Errorf("%+v", run)
	}
	if n := len(bodies[*agent.Notice](r)); n != 3 || strings.Join(skipped, " ") != "commit push" {
		t.Errorf("the model was told %d times; passed over at %v", n, skipped)
	}
	if c := bodies[*agent.Committed](r); len(c) != 1 || c[0].Unhooked == "" {
		t.Errorf("committed %+v", c)
	}
}

// If a run has reached a limit, the loop sends no further request to the model.
func TestHooksAtALimit(t *testing.T) {
	r := newRig(t, true)
	r.machine.hook = func(what string, skipHooks bool) (remote.Delivered, error) {
		if !skipHooks {
			return remote.Delivered{}, hookRefuses(what, "no")
		}
		return remote.Delivered{Commit: "c0ffee", Made: what == "commit", Note: "no"}, nil
	}
	r.allowed = allowance.Amount{Turns: 1}
	r.model.steps = []step{use(`Shell {"command":"true"}`), say("never")}
	run := r.work(t.Context())
	if run.Status != agent.Expired || !strings.Contains(run.Result, "without the project's git hooks: no") || len(run.Branches) != 1 || len(bodies[*agent.Notice](r)) != 0 {
		t.Errorf("%+v", run)
	}
}
