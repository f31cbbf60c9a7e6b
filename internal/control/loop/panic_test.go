package loop_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/loop"
	"aloft/internal/control/loop/remote"
	"aloft/internal/control/model"
	"aloft/internal/conversation"
	"aloft/internal/tool"
)

// TestPanicEndsTheRun causes a panic in each goroutine of a run. The run must
// end with an error, the panic must be logged, and the server must continue.
// Otherwise one run would stop all others, again after each restart.
func TestPanicEndsTheRun(t *testing.T) {
	broken := func(func(model.Event, error) bool) { panic("no such index") }
	brokenCall := func(context.Context, conversation.ToolCall, func(remote.Delta)) (tool.Result, error) {
		panic("no such index")
	}
	for name, change := range map[string]func(r *rig){
		"Model": func(r *rig) { r.model.steps = []step{broken} },
		"Call": func(r *rig) {
			r.model.steps = []step{use(`Shell {"command":"true"}`)}
			r.machine.call = brokenCall
		},
		"Subagent": func(r *rig) {
			r.change = func(c *loop.Config) {
				c.Models.Model = asked(func(req model.Request, turn int) step {
					if strings.HasPrefix(req.System, "You are a subagent") {
						return broken
					}
					return []step{use(backgroundTask), say("I wait")}[min(turn, 1)]
				})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, true)
			change(r)
			var log strings.Builder
			set := r.change
			r.change = func(c *loop.Config) {
				if set != nil {
					set(c)
				}
				c.Logger = slog.New(slog.NewTextHandler(&log, nil))
			}
			run := r.work(t.Context())
			if run.Status != agent.Failed || run.Failure == nil || run.Failure.Code != "internal" || strings.Contains(run.Failure.Message, "index") {
				t.Errorf("the run ends as %s with %+v", run.Status, run.Failure)
			}
			if !strings.Contains(log.String(), "no such index") || !strings.Contains(log.String(), "panic_test.go") {
				t.Errorf("the log has %q", log.String())
			}
		})
	}
}

// TestPanicOfATitle checks that a panic while a title is generated does not end
// the run.
func TestPanicOfATitle(t *testing.T) {
	r := newRig(t, false)
	r.model.steps = []step{say("done")}
	fast := &answers{steps: []step{func(func(model.Event, error) bool) { panic("no such index") }}}
	r.change = func(c *loop.Config) {
		c.Models.Fast, c.Models.Named = "fast", named(map[string]*answers{"fast": fast})
	}
	if run := r.work(t.Context()); run.Status != agent.Finished || len(fast.requests) != 1 {
		t.Errorf("the run ends as %s after %d requests for a title", run.Status, len(fast.requests))
	}
}
