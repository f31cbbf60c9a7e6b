package agent

import (
	"fmt"
	"time"
)

// Outcome is the typed result of a run. It is derived from facts: the checks,
// the goal's verdict, limits and failures, not from the model's words alone.
type Outcome string

// Outcomes of a run. A cancelled run has none.
const (
	// Done means that the agent has ended its turn, its work is delivered, and
	// all checks passed. Without checks and a goal, the work is not verified.
	Done Outcome = "done"
	// Partly means that the work is delivered, but the last round of checks failed or ran
	// on a commit other than the pushed one, or the goal is not met.
	Partly Outcome = "partly"
	// Blocked means that something other than the agent prevented the work or its
	// verification: an error, a check that was not allowed to run, or a goal that
	// could not be judged.
	Blocked Outcome = "blocked"
	// GaveUp means that the agent made no progress: it changed nothing after failed checks
	// or an unmet goal, or it repeated a call.
	GaveUp Outcome = "gave_up"
	// AtLimit means that the run has reached one of its limits.
	AtLimit Outcome = "limit"
)

// Evidence lists the facts from which the outcome of a run is derived.
type Evidence struct {
	Checks  []CheckResult   `json:"checks,omitempty"`  // results of the last round
	Commits []CheckedCommit `json:"commits,omitempty"` // commits on which the checks ran
	Rounds  int             `json:"rounds,omitempty"`  // number of rounds of checks
	// Stale says that the checks ran on a commit other than the pushed one.
	Stale bool `json:"stale,omitempty"`
	// Goal is the verdict on the run's goal; nil if there is none.
	Goal *GoalVerdict `json:"goal,omitempty"`
	// Bugfixes are the agent's own reports. The outcome does not depend on them.
	Bugfixes []Bugfix `json:"bugfixes,omitempty"`
}

// Evidence returns the evidence of the run so far, or nil if there is none.
func (s *State) Evidence() *Evidence {
	c := &s.Checking
	if c.Round == 0 && s.Judging.Verdict == nil && len(s.Bugfixes) == 0 {
		return nil
	}
	e := &Evidence{Checks: c.Results, Commits: c.Commits, Rounds: c.Round, Goal: s.Judging.Verdict, Bugfixes: s.Bugfixes}
	for _, checked := range c.Commits {
		for _, b := range s.Run.Branches {
			if b.RepoURL == checked.RepoURL && b.Commit != checked.Commit {
				e.Stale = true
			}
		}
	}
	return e
}

// Summary describes the result in one line, without the output.
func (r CheckResult) Summary() string {
	took := " (" + duration(r.DurationMS) + ")"
	switch {
	case r.State == CheckPassed:
		return "`" + r.Command + "` passed" + took
	case r.State == CheckNotRun:
		return "`" + r.Command + "` was not allowed to run"
	case r.State == CheckLost:
		return "`" + r.Command + "` did not finish: the machine was lost"
	case r.ExitCode != nil:
		return fmt.Sprintf("`%s` failed with exit status %d%s", r.Command, *r.ExitCode, took)
	}
	return "`" + r.Command + "` failed: it was killed or timed out" + took
}

// duration formats milliseconds for people.
func duration(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", ms)
	case d < time.Minute:
		return fmt.Sprintf("%d s", int64(d.Seconds()))
	}
	return fmt.Sprintf("%d min %d s", int64(d.Minutes()), int64(d.Seconds())%60)
}
