package pull

import (
	"fmt"
	"strings"

	"aloft/internal/agent"
)

// checksText tells reviewers the results of a run's checks and the verdict on
// its goal, or returns "" if there are none. If shown is false, it contains
// only numbers, because commands may contain private text.
func checksText(e *agent.Evidence, shown bool) string {
	if e == nil {
		return ""
	}
	passed := 0
	for _, r := range e.Checks {
		if r.State == agent.CheckPassed {
			passed++
		}
	}
	var b strings.Builder
	switch {
	case len(e.Checks) == 0:
	case !shown:
		fmt.Fprintf(&b, "\n\nChecks: %d of %d passed.", passed, len(e.Checks))
	case len(e.Checks) == 1:
		b.WriteString("\n\nChecks: " + summary(e.Checks[0]))
	default:
		b.WriteString("\n\nChecks:\n")
		for _, r := range e.Checks {
			b.WriteString("\n- " + summary(r))
		}
	}
	if e.Stale {
		b.WriteString("\n\nThe checks ran on an earlier commit.")
	}
	switch g := e.Goal; {
	case g == nil || g.Failure != "":
	case g.Met:
		b.WriteString("\n\nGoal: met, as a second model judged.")
	default:
		b.WriteString("\n\nGoal: not met, as a second model judged.")
	}
	return b.String()
}

// summary describes a result on one line of Markdown.
func summary(r agent.CheckResult) string {
	r.Command = strings.ReplaceAll(oneLine(r.Command), "`", "'") // the command is in a code span
	return r.Summary()
}
