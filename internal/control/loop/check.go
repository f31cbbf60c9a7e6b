package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"aloft/internal/agent"
	"aloft/internal/control/loop/proof"
	"aloft/internal/control/loop/remote"
	"aloft/internal/fault"
)

// check runs the checks of the run on the committed work. If notified is true,
// check has told the model to fix the work, and the rest of finish must wait.
// Every step is journaled, so that check continues after a crash where it was
// interrupted.
func (l *Loop) check(ctx context.Context) (notified bool, err error) {
	s := l.rec.Snapshot()
	if !proof.MustCheck(s) {
		return false, nil
	}
	if !s.CheckedNow() {
		if notified, err := l.beginChecks(ctx, s); notified || err != nil {
			return notified, err
		}
		if s = l.rec.Snapshot(); !s.CheckedNow() {
			return false, nil // there is nothing to check
		}
	}
	checks := l.checksThread()
	for len(checks.state().Calls) > 0 {
		if err := checks.calls(ctx); err != nil {
			return false, err
		}
	}
	if err := checks.acknowledged(); err != nil {
		return false, err
	}
	return l.endChecks(ctx, l.rec.Snapshot())
}

// checksThread returns a thread for the calls of checks.
func (l *Loop) checksThread() *thread {
	return &thread{Loop: l, machine: l.own.machine, task: agent.ChecksThread}
}

// beginChecks commits the work and journals which checks to run on it. If it
// cannot commit the work, it journals no checks, because [Loop.deliverAll] will
// report the error. notified has the same meaning as in [Loop.check].
func (l *Loop) beginChecks(ctx context.Context, s *agent.State) (notified bool, err error) {
	if len(s.Checking.Thread.Calls) > 0 { // calls of an interrupted round
		if err := l.checksThread().abandon(ctx); err != nil {
			return false, err
		}
	}
	began := &agent.ChecksBegan{Round: s.Checking.Round + 1}
	changed := len(s.Agent.Repos) == 0
	for n, repo := range s.Agent.Repos {
		done, notified, err := l.commit(ctx, n, false)
		switch {
		case notified:
			return true, err
		case err == nil:
		case errors.Is(err, remote.ErrLost), ctx.Err() != nil, fault.Of(err).Kind == fault.KindInternal:
			return false, err
		default:
			return false, nil
		}
		began.Commits = append(began.Commits, agent.CheckedCommit{RepoURL: repo.URL, Commit: done.Commit})
		changed = changed || done.Commit != s.Checkout(n).BaseCommit
	}
	folder := agent.Folders(s.Agent.Repos)[0]
	number := l.rec.Snapshot().Number()
	for i, c := range s.Checks() {
		if c.Source == agent.CheckOfEnvironment && !changed {
			continue
		}
		args, err := json.Marshal(map[string]any{"command": c.Command, "working_directory": folder, "timeout": l.Checks.PerCheck().Milliseconds()})
		if err != nil {
			return false, err
		}
		began.Checks = append(began.Checks, agent.PlannedCheck{Check: c, CallID: fmt.Sprintf("check_%d_%d", number, i), Args: args})
	}
	if len(began.Checks) == 0 {
		return false, nil
	}
	return false, l.rec.Record(ctx, began)
}

// endChecks journals the results of the round, and sends the model back to work
// if checks have failed and another round makes sense.
func (l *Loop) endChecks(ctx context.Context, s *agent.State) (notified bool, err error) {
	ended := &agent.ChecksEnded{Results: s.Checking.Results}
	lost := slices.ContainsFunc(ended.Results, func(r agent.CheckResult) bool { return r.State == agent.CheckLost })
	if ended.Again = lost && s.Checking.Repeated < maxLost; ended.Again {
		return true, l.rec.Record(ctx, ended) // the loop calls check again, which commits first
	}
	bodies := []agent.Body{ended}
	if proof.SendBack(s, l.Checks.MaxSendBacks()) {
		notified = true
		bodies = append(bodies, &agent.Notice{Code: agent.CodeChecks, Text: proof.FailedChecks(s, l.Checks.MaxSendBacks())})
	}
	return notified, l.rec.Record(ctx, bodies...)
}
