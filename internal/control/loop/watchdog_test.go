package loop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/loop"
	"aloft/internal/control/loop/remote"
	"aloft/internal/conversation"
	"aloft/internal/tool"
)

// TestWatchdog checks when repeated calls cause a warning to the model, and
// when they end the run.
func TestWatchdog(t *testing.T) {
	fails, reads := `Shell {"command":"make fails"}`, `Read {"path":"a"}`
	many := func(n int, calls ...string) (out []step) {
		for range n {
			out = append(out, use(calls...))
		}
		return out
	}
	end := []step{say("done")}
	for _, c := range []struct {
		name  string
		steps []step
		told  int
		ends  bool
	}{
		{"Twice", append(many(2, fails), end...), 0, false},
		{"ToldOnce", append(many(3, fails), end...), 1, false},
		{"GoesOn", append(many(9, fails), end...), 1, true},
		{"ReadsBetween", slices.Concat(many(2, fails), many(1, reads), many(1, fails), end), 1, false},
		{"Parallel", slices.Concat(many(3, fails, `Read {"path":"b"}`), end), 1, false},
		{"Succeeds", append(many(50, `Shell {"command":"true"}`), end...), 0, false},
		{"ReadsAgain", append(many(9, reads), end...), 0, false},
		{"ExitCode", append(many(9, `Shell {"command":"make test"}`), end...), 1, true},
		{"SucceedsBetween", slices.Concat(many(2, fails), many(1, `Shell {"command":"true"}`), many(2, fails), end), 0, false},
		{"ExecDaemonDies", append(many(9, `Shell {"command":"killed"}`), end...), 0, false},
		{"DoesSomethingElse", slices.Concat(many(3, fails), many(1, `Write {"path":"a","contents":"x"}`), many(2, fails), end), 1, false},
		{"ChangesBetween", slices.Concat(many(2, fails), many(1, `Write {"path":"a","contents":"x"}`), many(2, fails), end), 0, false},
		{"Await", append(many(9, `Await {"pid":1}`), end...), 0, false},
		{"SleepLoop", append(many(9, `Shell {"command":"sleep 5; kubectl get pods"}`), end...), 0, false},
		{"OutputChanges", append(many(9, `Shell {"command":"date"}`), end...), 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, true)
			n := 0
			r.machine.call = func(_ context.Context, c conversation.ToolCall, _ func(remote.Delta)) (tool.Result, error) {
				n++
				switch {
				case strings.Contains(string(c.Args), "fails"):
					return tool.Failed("no rule to make target"), nil
				case strings.Contains(string(c.Args), "true"):
					return tool.Result{Output: json.RawMessage(`{"success":{"exitCode":0}}`)}, nil
				case strings.Contains(string(c.Args), "make test"):
					return tool.Result{Text: "FAIL", Output: json.RawMessage(`{"success":{"exitCode":1}}`)}, nil
				case strings.Contains(string(c.Args), "killed"):
					return tool.Failed("%s", tool.Restarted), nil
				case strings.Contains(string(c.Args), "date"):
					return tool.Result{Text: fmt.Sprint("now ", n)}, nil
				}
				return tool.Result{Text: "ok"}, nil
			}
			r.model.steps = c.steps
			r.change = func(c *loop.Config) { c.Limits.Repeats = 3 }
			run := r.work(t.Context())
			told := 0
			for _, b := range bodies[*agent.Notice](r) {
				if b.Code == agent.CodeRepeats {
					told++
				}
			}
			if told != c.told {
				t.Errorf("told %d times, want %d", told, c.told)
			}
			switch {
			case !c.ends && run.Status != agent.Finished:
				t.Errorf("the run ended: %+v", run.Failure)
			case c.ends && (run.Status != agent.Failed || run.Failure.Code != "no_progress" || run.Outcome != agent.GaveUp || len(run.Branches) != 1 || run.Turns != 6):
				t.Errorf("%+v, %+v", run, run.Failure)
			}
		})
	}
}

// If a subagent makes no progress, only the subagent ends. The agent continues.
func TestWatchdogOfSubagent(t *testing.T) {
	r := newRig(t, true)
	r.machine.call = func(context.Context, conversation.ToolCall, func(remote.Delta)) (tool.Result, error) {
		return tool.Failed("no such file"), nil
	}
	c := r.config()
	c.Limits.Repeats = 3
	c.Models.Model = played{own: []step{use(`Task {"description":"d","prompt":"p"}`), say("without it")}, sub: []step{use(`Shell {"command":"cat nothing"}`)}}
	if err := loop.Run(t.Context(), r.id, c); err != nil {
		t.Fatal(err)
	}
	run, err := r.store.Run(t.Context(), r.id, r.run)
	if err != nil || run.Status != agent.Finished || run.Outcome != agent.Done {
		t.Errorf("%+v, %+v, %v", run, run.Failure, err)
	}
	if done := bodies[*agent.CallDone](r); len(done) != 1 || !done[0].Error || !strings.Contains(done[0].Text, "repeats a call") {
		t.Errorf("the agent was told %+v", done)
	}
}
