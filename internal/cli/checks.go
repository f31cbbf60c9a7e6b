package cli

import (
	"fmt"
	"strings"
	"time"

	"aloft/internal/client"
)

// OutcomeText describes the outcome of a run in words.
func OutcomeText(outcome string, e *client.Evidence) string {
	what := map[string]string{
		"done": "done", "partly": "partly: the work is delivered, but not everything passed", "blocked": "blocked: something prevented the work or its checks",
		"gave_up": "gave up: the agent made no progress", "limit": "limit: the run reached a limit",
	}[outcome]
	switch {
	case what == "":
		return Line(outcome, 40)
	case outcome == "done" && (e == nil || len(e.Checks) == 0 && e.Goal == nil):
		return "done (nothing was checked)"
	case e != nil && e.Stale:
		return what + " (the checks ran on a commit other than the pushed one)"
	}
	return what
}

// checkText describes the result of a check.
func checkText(r client.CheckResult) (style Style, mark, what string) {
	switch {
	case r.State == "passed":
		return Green, "+", r.Command + " passed"
	case r.State == "not_run":
		return Yellow, "!", r.Command + " was not allowed to run"
	case r.State == "lost":
		return Yellow, "!", r.Command + " did not finish: the machine was lost"
	case r.ExitCode != nil:
		return Red, "x", fmt.Sprintf("%s failed with exit status %d", r.Command, *r.ExitCode)
	}
	return Red, "x", r.Command + " failed: it was killed or timed out"
}

// check prints the result of a check.
func (t *Transcript) check(r client.CheckResult) {
	style, mark, what := checkText(r)
	t.line(style, mark, "check", what, time.Duration(r.DurationMS)*time.Millisecond)
}

// goalText describes the verdict on a goal.
func goalText(g client.GoalVerdict) (style Style, mark, what string) {
	switch {
	case g.Met:
		return Green, "+", "met"
	case g.Failure != "":
		return Yellow, "!", "not judged: " + g.Failure
	}
	return Red, "x", "not met: " + g.Missing
}

// Goal prints the verdict on a goal.
func (o *Output) Goal(g client.GoalVerdict) {
	style, mark, what := goalText(g)
	o.Line("  %s goal %s", o.Style(style, mark), Line(what, 0))
}

// Bugfix prints an agent's report about a bug.
func (o *Output) Bugfix(b client.Bugfix) {
	style, mark, what := Red, "x", "not fixed"
	switch b.Verdict {
	case "fixed":
		style, mark, what = Green, "+", "fixed, as the agent reports"
	case "not_a_bug":
		style, mark, what = Yellow, "!", "not a bug, as the agent reports"
	}
	text := "bug " + b.ID + " " + what
	if b.Title != "" {
		text += ": " + b.Title
	}
	o.Line("  %s %s", o.Style(style, mark), Line(text, 0))
	if b.Explanation != "" {
		o.Line("      %s", Line(b.Explanation, 0))
	}
}

// maxShownLines is how many lines of a failed check's output are printed.
const maxShownLines = 20

// Check prints the result of a check, and the end of its output if it failed.
func (o *Output) Check(r client.CheckResult) {
	style, mark, what := checkText(r)
	o.Line("  %s %s  %s", o.Style(style, mark), Line(what, 0), o.Style(Dim, Took(time.Duration(r.DurationMS)*time.Millisecond)))
	if r.State != "failed" || r.Output == "" {
		return
	}
	lines := strings.Split(strings.TrimSpace(Clean(r.Output)), "\n")
	for _, line := range lines[max(len(lines)-maxShownLines, 0):] {
		o.Line("      %s", line)
	}
}
