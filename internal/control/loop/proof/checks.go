package proof

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"aloft/internal/agent"
)

// Checks configures the checks of runs.
type Checks struct {
	// Rounds limits how often in a run the model is asked to fix failed checks.
	// 0 means the default; a negative number means that the model is never
	// asked.
	Rounds int
	// Timeout is the timeout of each check, at most [MaxCheckTimeout]. 0 means
	// the default.
	Timeout time.Duration
}

// Defaults and limits of [Checks].
const (
	DefaultCheckRounds  = 3
	DefaultCheckTimeout = 10 * time.Minute
	MaxCheckTimeout     = 10 * time.Minute // maximum timeout of a Shell call
)

// MaxSendBacks returns how often failed checks send the model back to work in a run.
func (c Checks) MaxSendBacks() int { return max(cmp.Or(c.Rounds, DefaultCheckRounds), 0) }

// PerCheck returns the timeout of each check.
func (c Checks) PerCheck() time.Duration {
	return min(cmp.Or(c.Timeout, DefaultCheckTimeout), MaxCheckTimeout)
}

// MustCheck reports whether the run cannot finish before its checks have ended.
// It may return true although no check will run: the environment's checks run
// only if something has changed, which is known only after the commit.
func MustCheck(s *agent.State) bool {
	return len(s.Checks()) > 0 && s.Mode != agent.ModePlan && !(s.CheckedNow() && s.Checking.Over)
}

// SendBack reports whether the model must fix the failures of the current
// round: at least one check failed, rounds are left, and the previous attempt
// to fix them has changed something.
func SendBack(s *agent.State, rounds int) bool {
	return len(failed(s.Checking.Results)) > 0 && s.Checking.SentBack < rounds && !stuck(s)
}

// stuck reports whether the model was asked to fix the checks, changed nothing,
// and the same checks have failed again.
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

// FailedChecks tells the model which checks failed and how.
func FailedChecks(s *agent.State, rounds int) string {
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
