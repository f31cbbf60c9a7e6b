package loop_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/loop"
	"aloft/internal/control/loop/remote"
	"aloft/internal/conversation"
	"aloft/internal/tool"
)

// runsShort makes the rig's machine report each shortage once.
func (r *rig) runsShort() (report func(loop.Shortage)) {
	var due []loop.Shortage
	r.change = func(c *loop.Config) {
		c.Shortages = func(context.Context, *agent.State) (all []loop.Shortage) {
			all, due = due, nil
			return all
		}
	}
	return func(s loop.Shortage) { due = append(due, s) }
}

// TestOutOfMemory checks that the model and the journal learn that the machine
// ran out of memory, and that the run continues.
func TestOutOfMemory(t *testing.T) {
	killed := func() *agent.MachineOutOfMemory {
		return &agent.MachineOutOfMemory{MachineID: "m-1", Kills: 1, LimitBytes: 4 << 30, Killed: []agent.Process{{Name: "python3"}}}
	}
	const words = "killed: the machine ran out of memory (limit 4 GiB); the kernel killed python3"
	t.Run("DuringACall", func(t *testing.T) {
		r := newRig(t, false)
		report := r.runsShort()
		r.machine.call = func(_ context.Context, c conversation.ToolCall, _ func(remote.Delta)) (tool.Result, error) {
			if strings.Contains(string(c.Args), "make") {
				report(killed())
				return tool.Result{Text: "exit code 137", Error: true}, nil
			}
			return tool.Result{Text: "ok"}, nil
		}
		r.model.steps = []step{use(`Shell {"command":"make"}`), use(`Shell {"command":"ls"}`), say("done")}
		if run := r.work(t.Context()); run.Status != agent.Finished {
			t.Fatalf("got %+v", run)
		}
		done := bodies[*agent.CallDone](r)
		if done[0].Text != "exit code 137\n"+words || done[1].Text != "ok" {
			t.Errorf("the model was told %q, then %q", done[0].Text, done[1].Text)
		}
		if got := bodies[*agent.MachineOutOfMemory](r); len(got) != 1 || got[0].CallID != done[0].CallID {
			t.Errorf("journaled: %+v", got)
		}
		if n := bodies[*agent.Notice](r); len(n) != 0 {
			t.Errorf("it was told twice: %+v", n)
		}
	})
	t.Run("BetweenCalls", func(t *testing.T) {
		r := newRig(t, false)
		report := r.runsShort()
		report(killed()) // a background process was killed
		r.model.steps = []step{say("done")}
		if run := r.work(t.Context()); run.Status != agent.Finished {
			t.Fatalf("got %+v", run)
		}
		if n := bodies[*agent.Notice](r); len(n) != 1 || n[0].Code != agent.CodeOutOfMemory || n[0].Text != words {
			t.Errorf("notices %+v", n)
		}
	})
	t.Run("OfTheWholeMachine", func(t *testing.T) {
		r := newRig(t, false)
		report := r.runsShort()
		r.machine.call = func(context.Context, conversation.ToolCall, func(remote.Delta)) (tool.Result, error) {
			if len(r.machine.asked) == 1 {
				report(&agent.MachineOutOfMemory{MachineID: "m-1", Kills: 1, Ended: true})
				return tool.Result{}, fmt.Errorf("gone: %w", remote.ErrLost)
			}
			return tool.Result{Text: "ok"}, nil
		}
		r.model.steps = []step{use(`Shell {}`), use(`Shell {}`), say("done")}
		if run := r.work(t.Context()); run.Status != agent.Finished || len(bodies[*agent.MachineLost](r)) != 1 {
			t.Errorf("got %+v", run)
		}
		if done := bodies[*agent.CallDone](r); !strings.Contains(done[0].Text, "it ended with all its processes") || !done[0].Error {
			t.Errorf("the model was told %q", done[0].Text)
		}
	})
}

// TestDiskLimit checks that a run continues after its machine was stopped at
// the disk limit, and ends if this happens repeatedly.
func TestDiskLimit(t *testing.T) {
	full := &agent.MachineDiskFull{MachineID: "m-1", UsedBytes: 2 << 30, LimitBytes: 1 << 30}
	for _, c := range []struct {
		times  int
		status agent.Status
	}{{1, agent.Finished}, {20, agent.Failed}} {
		r := newRig(t, false)
		report := r.runsShort()
		r.machine.call = func(context.Context, conversation.ToolCall, func(remote.Delta)) (tool.Result, error) {
			if len(r.machine.asked) <= c.times {
				report(full)
				return tool.Result{}, remote.ErrLost
			}
			return tool.Result{Text: "ok"}, nil
		}
		for range c.times {
			r.model.steps = append(r.model.steps, use(`Shell {}`))
		}
		r.model.steps = append(r.model.steps, say("done"))
		run := r.work(t.Context())
		if run.Status != c.status || run.Failure != nil && run.Failure.Code != "disk_limit" {
			t.Errorf("full %d times: %s, %+v", c.times, run.Status, run.Failure)
		}
		if done := bodies[*agent.CallDone](r); !strings.Contains(done[0].Text, "its files take 2 GiB and its disk limit is 1 GiB") {
			t.Errorf("the model was told %q", done[0].Text)
		}
	}
}
