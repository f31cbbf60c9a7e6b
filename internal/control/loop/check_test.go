package loop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"aloft/internal/agent"
	"aloft/internal/allowance"
	"aloft/internal/control/loop"
	"aloft/internal/control/loop/remote"
	"aloft/internal/control/store"
	"aloft/internal/conversation"
	"aloft/internal/policy/permit"
	"aloft/internal/tool"
)

// project is a repository on a machine's disk, which outlives the machine. The
// repository's check passes once a file was written.
type project struct {
	mu      sync.Mutex
	fixed   bool
	changed bool // changed since the last commit
	version int  // version of the last commit
	checks  []string
	starts  map[string]int // how often each call was started
	// litter makes the check leave changed files in the working tree.
	litter bool
	// runs, if not nil, is called while a check runs.
	runs func(ctx context.Context) error
}

const failing2 = "expected 4, got 5"

// put puts the project on a fake machine's disk, and returns the machine.
func (p *project) put(h *fakeMachine) *fakeMachine {
	h.starts = func(c conversation.ToolCall, _ bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.starts == nil {
			p.starts = map[string]int{}
		}
		p.starts[c.ID]++
	}
	h.call = func(ctx context.Context, c conversation.ToolCall, _ func(remote.Delta)) (tool.Result, error) {
		var args struct {
			Command string
			Dir     string `json:"working_directory"`
			Timeout int
		}
		_ = json.Unmarshal(c.Args, &args)
		p.mu.Lock()
		defer p.mu.Unlock()
		if c.Name == "Write" {
			p.fixed, p.changed = true, true
		}
		if !strings.HasPrefix(c.ID, "check_") {
			p.changed = p.changed || c.Name == "Shell"
			return tool.Result{Text: "ok", Output: json.RawMessage(`{"success":{}}`)}, nil
		}
		if p.runs != nil {
			if err := p.runs(ctx); err != nil {
				return tool.Failed("aborted"), nil
			}
		}
		p.changed = p.changed || p.litter
		p.checks = append(p.checks, fmt.Sprintf("%s in %s for %d, shell %s, at v%d", args.Command, args.Dir, args.Timeout, c.Shell, p.version))
		if !p.fixed && args.Command == "make test" {
			return tool.Result{Text: failing2, Output: json.RawMessage(`{"success":{"exitCode":2}}`)}, nil
		}
		return tool.Result{Text: "PASS", Output: json.RawMessage(`{"success":{"exitCode":0}}`)}, nil
	}
	h.hook = func(what string, _ bool) (remote.Delivered, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		made := what == "commit" && p.changed
		if made {
			p.version++
			p.changed = false
		}
		return remote.Delivered{Commit: fmt.Sprintf("v%d", p.version), Made: made}, nil
	}
	return h
}

// checked returns the rig with a run that has the checks of a request and of an
// environment.
func checked(r *rig, request, env []string) (*rig, *project) {
	p := &project{}
	p.put(r.machine)
	r.run = agent.NewRunID()
	r.record(&agent.RunCreated{Prompt: conversation.Text(conversation.User, "mend it"), Checks: &request},
		&agent.MachineMade{MachineID: "m", Checks: env}, &agent.MachineReady{MachineID: "m", BootID: "boot-1", BaseCommit: "v0", Branch: "aloft/test-0000"})
	return r, p
}

// checkedRig returns a rig for a run with checks.
func checkedRig(t *testing.T, request, env []string) (*rig, *project) {
	t.Helper()
	r := newRig(t, true)
	r.record(&agent.RunEnded{Status: agent.Finished}) // the run that the rig has begun
	return checked(r, request, env)
}

func states(all []agent.CheckResult) (out []string) {
	for _, r := range all {
		out = append(out, r.Command+" "+string(r.State))
	}
	return out
}

// A failed check sends the model back to work, with the check's output. The run
// ends when the check passes.
func TestFailedCheckIsFixed(t *testing.T) {
	r, p := checkedRig(t, []string{"make test"}, []string{"make lint", "make test"})
	p.litter = true
	r.model.steps = []step{use(`Shell {"command":"edit"}`), say("done"), use(`Write {"path":"a","contents":"4"}`), say("fixed")}
	run := r.work(t.Context())
	if run.Status != agent.Finished || run.Result != "fixed" || run.Outcome != agent.Done {
		t.Fatalf("%+v, %+v", run, run.Failure)
	}
	heard := r.model.requests[2].Messages
	if words := heard[len(heard)-1].PlainText(); !strings.Contains(words, "`make test` failed with exit status 2") || !strings.Contains(words, failing2) || !strings.Contains(words, "`make lint` passed") {
		t.Errorf("the model was told %q", words)
	}
	if len(p.checks) != 4 || !strings.HasPrefix(p.checks[2], "make test in /workspace for 600000, shell check_") || !strings.HasSuffix(p.checks[2], "at v2") {
		t.Errorf("checks %q", p.checks)
	}
	e := run.Evidence
	if e == nil || e.Rounds != 2 || e.Stale || !slices.Equal(states(e.Checks), []string{"make test passed", "make lint passed"}) || e.Checks[0].Output != "PASS" || *e.Checks[0].ExitCode != 0 {
		t.Errorf("evidence %+v", e)
	}
	if want := []agent.Branch{{RepoURL: "https://git.example.com/r", Branch: "aloft/test-0000", Commit: "v2"}}; !slices.Equal(run.Branches, want) || e.Commits[0].Commit != "v2" {
		t.Errorf("pushed %v, checked %v", run.Branches, e.Commits)
	}
}

// TestOutcomes checks the status and the outcome of runs with checks.
func TestOutcomes(t *testing.T) {
	edit := use(`Shell {"command":"edit"}`)
	for _, c := range []struct {
		name    string
		request []string
		env     []string
		steps   []step
		change  func(r *rig, p *project)
		status  agent.Status
		outcome agent.Outcome
		checks  []string
	}{
		{"NoChecks", nil, nil, []step{edit, say("done")}, nil, agent.Finished, agent.Done, nil},
		{"NothingChanged", nil, []string{"make test"}, []step{say("it is blue")}, nil, agent.Finished, agent.Done, nil},
		{"RequestWithoutChanges", []string{"make lint"}, nil, []step{say("it is blue")}, nil, agent.Finished, agent.Done, []string{"make lint passed"}},
		{"RoundsUsedUp", []string{"make test"}, nil, []step{edit, say("a"), edit, say("b"), edit, say("c"), edit, say("d")}, nil, agent.Finished, agent.Partly, []string{"make test failed"}},
		{"NoRounds", []string{"make test"}, nil, []step{edit, say("a")}, func(r *rig, _ *project) { r.change = func(c *loop.Config) { c.Checks.Rounds = -1 } }, agent.Finished, agent.Partly, []string{"make test failed"}},
		{"NoProgress", []string{"make test"}, nil, []step{edit, say("a"), say("it is not my fault")}, nil, agent.Finished, agent.GaveUp, []string{"make test failed"}},
		{"Limit", []string{"make test"}, nil, []step{edit, say("a")}, func(r *rig, _ *project) { r.allowed = allowance.Amount{Turns: 2} }, agent.Expired, agent.AtLimit, []string{"make test failed"}},
		{"Refused", nil, []string{"make lint"}, []step{edit, say("a")}, func(r *rig, _ *project) {
			r.reviewed(permit.Allowlist, `{"terminalAllowlist":["edit"]}`)
			r.answer(agent.Deny, "no")
		}, agent.Finished, agent.Blocked, []string{"make lint not_run"}},
		{"RequestNeedsNoApproval", []string{"make lint"}, nil, []step{edit, say("a")}, func(r *rig, _ *project) {
			r.reviewed(permit.Allowlist, `{"terminalAllowlist":["edit"]}`)
		}, agent.Finished, agent.Done, []string{"make lint passed"}},
		{"ModelFails", []string{"make test"}, nil, []step{edit}, nil, agent.Failed, agent.Blocked, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, p := checkedRig(t, c.request, c.env)
			r.model.steps = c.steps
			if c.change != nil {
				c.change(r, p)
			}
			run := r.work(t.Context())
			var got []string
			if run.Evidence != nil {
				got = states(run.Evidence.Checks)
			}
			if run.Status != c.status || run.Outcome != c.outcome || !slices.Equal(got, c.checks) {
				t.Errorf("%s %q %q, %+v", run.Status, run.Outcome, got, run.Failure)
			}
		})
	}
}

// A run's time limit also ends a running check.
func TestChecksHaveTheRunsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, p := checkedRig(t, []string{"make test"}, nil)
		p.runs = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		r.allowed = allowance.Amount{Seconds: 60}
		r.model.steps = []step{use(`Shell {"command":"edit"}`), say("a")}
		run := r.work(t.Context())
		if run.Status != agent.Expired || run.Outcome != agent.AtLimit || len(run.Branches) != 1 {
			t.Errorf("%+v, %+v", run, run.Failure)
		}
		if known := r.machine.Known(); len(known) > 0 {
			t.Errorf("the machine keeps %q", known)
		}
	})
}

// TestEveryAppendOfChecks makes each append of a run with checks fail in turn:
// the server dies before or after the write, alone or with the machine. The
// model must be sent back once, no check may start twice, and the checked
// commit must be pushed once.
func TestEveryAppendOfChecks(t *testing.T) {
	for _, c := range []failing{
		{"ServerDiesBefore", false, false, nil},
		{"ServerDiesAfter", false, true, nil},
		{"BothDieBefore", true, false, nil},
		{"BothDieAfter", true, true, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first := newRig(t, true)
				n := 1
				for !sweepChecks(t, first.another(true), n, c) {
					n++
				}
				if n < 15 {
					t.Errorf("the run had %d appends", n-1)
				}
			})
		})
	}
}

func sweepChecks(t *testing.T, r *rig, n int, how failing) (over bool) {
	t.Helper()
	r.record(&agent.RunEnded{Status: agent.Finished})
	r, p := checked(r, []string{"make test"}, []string{"make lint"})
	p.litter = true
	c := r.config()
	c.Models.Model = played{own: []step{use(`Shell {"command":"edit"}`), say("done"), use(`Write {"path":"a","contents":"4"}`), use(`Write {"path":"a","contents":"4"}`), say("fixed")}}
	c.Journal = &mortal{Journal: r.store, dies: func(i int, _ store.Append) bool { return i == n }, after: how.after}
	err := loop.Run(t.Context(), r.id, c)
	if over = err == nil; !over {
		if how.machine {
			r.machine = p.put(&fakeMachine{boot: "boot-2"})
		}
		c.Journal, c.Machine = r.store, r.config().Machine
		if err := loop.Run(t.Context(), r.id, c); err != nil {
			t.Errorf("append %d: the next server leaves it open: %v", n, err)
		}
	}
	run, err := r.store.Run(t.Context(), r.id, r.run)
	if err != nil || run.Status != agent.Finished || run.Outcome != agent.Done || run.Evidence == nil || run.Evidence.Stale || run.Result != "fixed" {
		t.Errorf("append %d: %+v, %+v, %v", n, run, run.Evidence, err)
		return true
	}
	for id, times := range p.starts {
		if times > 1 {
			t.Errorf("append %d: %s was started %d times", n, id, times)
		}
	}
	sentBack := 0
	for _, b := range bodies[*agent.Notice](r) {
		if b.Code == agent.CodeChecks {
			sentBack++
		}
	}
	if sentBack != 1 || len(bodies[*agent.Pushed](r)) != 1 || run.Branches[0].Commit != run.Evidence.Commits[0].Commit {
		t.Errorf("append %d: sent back %d times, pushed %+v", n, sentBack, run.Branches)
	}
	if rounds := len(bodies[*agent.ChecksBegan](r)); rounds != 2 && (!how.machine || rounds > 3) {
		t.Errorf("append %d: %d rounds", n, rounds)
	}
	if known := r.machine.Known(); len(known) > 0 {
		t.Errorf("append %d: the machine keeps %q", n, known)
	}
	return over
}

// If a machine dies during a check, it is replaced and the round is repeated.
func TestMachineLostDuringCheck(t *testing.T) {
	r, p := checkedRig(t, []string{"make lint"}, nil)
	inner := r.machine.call
	lost := false
	r.machine.call = func(ctx context.Context, c conversation.ToolCall, d func(remote.Delta)) (tool.Result, error) {
		if strings.HasPrefix(c.ID, "check_") && !lost {
			lost = true
			return tool.Result{}, fmt.Errorf("gone: %w", remote.ErrLost)
		}
		return inner(ctx, c, d)
	}
	r.model.steps = []step{use(`Shell {"command":"edit"}`), say("done")}
	run := r.work(t.Context())
	if run.Outcome != agent.Done || run.Evidence.Rounds != 2 || len(p.checks) != 1 {
		t.Errorf("%+v, %+v, %q", run, run.Evidence, p.checks)
	}
}

// Cancelling a run during a check aborts the check. The run has no outcome.
func TestCancelDuringCheck(t *testing.T) {
	r, p := checkedRig(t, []string{"make test"}, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	p.runs = func(ctx context.Context) error { cancel(loop.ErrCancel); <-ctx.Done(); return errors.New("stopped") }
	r.model.steps = []step{use(`Shell {"command":"edit"}`), say("done")}
	run := r.work(ctx)
	if run.Status != agent.Cancelled || run.Outcome != "" || len(r.machine.Known()) > 0 {
		t.Errorf("%+v; the machine keeps %q", run, r.machine.Known())
	}
}
