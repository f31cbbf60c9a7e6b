package loop

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/loop/remote"
	"aloft/internal/fault"
)

// Checks configures the checks of runs.
type Checks struct {
	// Rounds is how often failed checks send the model back to work in a run.
	// 0 means the default; a negative number means never.
	Rounds int
	// Timeout is the timeout of each check, at most [MaxCheckTimeout]. 0 means
	// the default.
	Timeout time.Duration
}

// Defaults and limits of [Checks].
const (
	DefaultCheckRounds  = 3
	DefaultCheckTimeout = 10 * time.Minute
	MaxCheckTimeout     = 10 * time.Minute // of a Shell call
)

func (c Checks) rounds() int { return max(cmp.Or(c.Rounds, DefaultCheckRounds), 0) }

func (c Checks) timeout() time.Duration {
	return min(cmp.Or(c.Timeout, DefaultCheckTimeout), MaxCheckTimeout)
}

// mustCheck reports whether the run cannot finish before its checks have ended. It may
// return true although no check will run: whether anything has changed, which the
// environment's checks require, is known only after the commit.
func (l *Loop) mustCheck(s *agent.State) bool {
	return len(s.Checks()) > 0 && s.Mode != agent.ModePlan && !(s.CheckedNow() && s.Checking.Over)
}

// check runs the checks of the run on the committed work. told means that the
// model was asked to fix the work, so the rest of finish must wait. Every step
// is journaled, so that check continues after a crash where it was interrupted.
func (l *Loop) check(ctx context.Context) (told bool, err error) {
	s := l.rec.Snapshot()
	if !l.mustCheck(s) {
		return false, nil
	}
	if !s.CheckedNow() {
		if told, err := l.beginChecks(ctx, s); told || err != nil {
			return told, err
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

// beginChecks commits the work and journals the checks to run on it. It
// journals none if the work cannot be committed, since [Loop.deliverAll]
// reports why. told is as for [Loop.check].
func (l *Loop) beginChecks(ctx context.Context, s *agent.State) (told bool, err error) {
	if len(s.Checking.Thread.Calls) > 0 { // of a round that something interrupted
		if err := l.checksThread().abandon(ctx); err != nil {
			return false, err
		}
	}
	began := &agent.ChecksBegan{Round: s.Checking.Round + 1}
	changed := len(s.Agent.Repos) == 0
	for n, repo := range s.Agent.Repos {
		done, told, err := l.commit(ctx, n, false)
		switch {
		case told:
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
		args, err := json.Marshal(map[string]any{"command": c.Command, "working_directory": folder, "timeout": l.Checks.timeout().Milliseconds()})
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
func (l *Loop) endChecks(ctx context.Context, s *agent.State) (told bool, err error) {
	ended := &agent.ChecksEnded{Results: s.Checking.Results}
	lost := slices.ContainsFunc(ended.Results, func(r agent.CheckResult) bool { return r.State == agent.CheckLost })
	if ended.Again = lost && s.Checking.Repeated < maxLost; ended.Again {
		return true, l.rec.Record(ctx, ended) // the loop comes back here, and commits first
	}
	bodies := []agent.Body{ended}
	if sendBack(s, l.Checks.rounds()) {
		told = true
		bodies = append(bodies, &agent.Notice{Code: agent.CodeChecks, Text: failedChecks(s, l.Checks.rounds())})
	}
	return told, l.rec.Record(ctx, bodies...)
}

// sendBack reports whether the results of the current round send the model back
// to work: at least one check failed, rounds are left, and the previous attempt
// has changed something.
func sendBack(s *agent.State, rounds int) bool {
	return len(failed(s.Checking.Results)) > 0 && s.Checking.SentBack < rounds && !stuck(s)
}

// stuck reports whether the model, sent back to work by checks, has changed
// nothing and the same checks have failed again.
func stuck(s *agent.State) bool {
	c := &s.Checking
	same := func(a, b agent.CheckResult) bool { return a.Check == b.Check && a.State == b.State }
	return c.SentBack > 0 && slices.Equal(c.Commits, c.At) && slices.EqualFunc(failed(c.Results), failed(c.Before), same)
}

// failed returns the results of the checks that failed.
func failed(all []agent.CheckResult) []agent.CheckResult {
	var out []agent.CheckResult
	for _, r := range all {
		if r.State == agent.CheckFailed {
			out = append(out, r)
		}
	}
	return out
}

// failedChecks tells the model which checks failed and how.
func failedChecks(s *agent.State, rounds int) string {
	var b strings.Builder
	b.WriteString("Your work is committed, but it is not finished: checks failed on it.\n")
	for _, r := range s.Checking.Results {
		b.WriteString("\n" + r.Summary() + "\n")
		if r.State == agent.CheckFailed && r.Output != "" {
			fmt.Fprintf(&b, "The end of its output:\n<output>\n%s\n</output>\n", strings.TrimRight(r.Output, "\n"))
		}
	}
	left := rounds - s.Checking.SentBack - 1
	b.WriteString("\nFix the cause, then end your turn: the checks run again. Do not weaken, skip or special-case a check. " +
		"If a check cannot pass, say why in your final message.")
	if left == 0 {
		b.WriteString(" This is the last time that failed checks are reported to you.")
	}
	return b.String()
}

// outcome returns the typed end of a run, and the evidence for it.
func (l *Loop) outcome(ended *agent.RunEnded) (agent.Outcome, *agent.Evidence) {
	s := l.rec.Snapshot()
	evidence := s.Evidence()
	switch {
	case ended.Status == agent.Cancelled:
		return "", evidence
	case ended.Status == agent.Expired:
		return agent.AtLimit, evidence
	case ended.Failure != nil && ended.Failure.Code == repeatsCall:
		return agent.GaveUp, evidence
	case ended.Status == agent.Failed:
		return agent.Blocked, evidence
	case leftOpen(s) == agent.GaveUp:
		return agent.GaveUp, evidence
	case evidence == nil && leftOpen(s) != "":
		return leftOpen(s), nil
	case evidence == nil:
		return agent.Done, nil
	case stuck(s), s.Judging.Stuck:
		return agent.GaveUp, evidence
	case len(failed(evidence.Checks)) > 0, evidence.Stale, leftOpen(s) != "":
		return agent.Partly, evidence
	case evidence.Goal != nil && evidence.Goal.Failure != "":
		return agent.Blocked, evidence
	case evidence.Goal != nil && !evidence.Goal.Met:
		return agent.Partly, evidence
	case slices.ContainsFunc(evidence.Checks, func(r agent.CheckResult) bool { return r.State != agent.CheckPassed }):
		return agent.Blocked, evidence
	}
	return agent.Done, evidence
}
