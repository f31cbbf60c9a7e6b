package pull

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"aloft/internal/agent"
)

// checksText tells reviewers the outcome of a run, the results of its checks and
// the verdict on its goal, or returns "" if there are none. If shown is false,
// it contains only numbers, because commands may contain private text.
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
	if len(e.Checks) > 0 || e.Goal != nil {
		fmt.Fprintf(&b, "\n\nOutcome: %s.", outcomeOf(e))
	}
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

// outcomeOf returns the outcome of a run that ends with this evidence. A pull
// request is opened before the run has ended, after its checks and its goal.
func outcomeOf(e *agent.Evidence) agent.Outcome {
	in := func(states ...agent.CheckState) bool {
		return slices.ContainsFunc(e.Checks, func(r agent.CheckResult) bool { return slices.Contains(states, r.State) })
	}
	switch {
	case in(agent.CheckFailed), e.Stale:
		return agent.Partly
	case e.Goal != nil && e.Goal.Failure != "":
		return agent.Blocked
	case e.Goal != nil && !e.Goal.Met:
		return agent.Partly
	case in(agent.CheckNotRun, agent.CheckLost):
		return agent.Blocked
	}
	return agent.Done
}

// mediaText names the screenshots and recordings among an agent's artifacts,
// which are at link. Pairs such as list-before.png and list-after.png come
// first.
func mediaText(names []string, link string) string {
	var pairs, others []string
	for _, name := range names {
		if !slices.Contains(mediaTypes, strings.ToLower(path.Ext(name))) {
			continue
		}
		before, after := strings.Replace(name, "after", "before", 1), strings.Replace(name, "before", "after", 1)
		switch {
		case name != after && slices.Contains(names, after):
			pairs = append(pairs, "before and after: "+code(name)+", "+code(after))
		case name != before && slices.Contains(names, before): // it is in its pair
		default:
			others = append(others, code(name))
		}
	}
	all := slices.Concat(pairs, others)
	if len(all) == 0 {
		return ""
	}
	more := max(0, len(all)-maxMedia)
	all = all[:len(all)-more]
	if more > 0 {
		all = append(all, fmt.Sprintf("and %d more", more))
	}
	return "\n\nScreenshots and recordings, on the [agent's page](" + link + "):\n\n- " + strings.Join(all, "\n- ")
}

const maxMedia = 20

var mediaTypes = []string{".png", ".jpg", ".jpeg", ".gif", ".webp", ".mp4", ".webm", ".mov"}

// code returns a name as a code span.
func code(name string) string { return "`" + strings.ReplaceAll(oneLine(name), "`", "'") + "`" }
