package pull

import (
	"strings"
	"testing"

	"aloft/internal/agent"
)

// TestChecksText checks the text about checks that reviewers see. Commands are
// omitted if they must not be shown, and cannot end their code span.
func TestChecksText(t *testing.T) {
	passed := agent.CheckResult{Check: agent.Check{Command: "make test"}, State: agent.CheckPassed, ExitCode: new(0), DurationMS: 12_000}
	failed := agent.CheckResult{Check: agent.Check{Command: "echo `id`\n# x"}, State: agent.CheckFailed, ExitCode: new(1), DurationMS: 5}
	for _, c := range []struct {
		e     *agent.Evidence
		shown bool
		want  string
	}{
		{nil, true, ""},
		{&agent.Evidence{}, true, ""},
		{&agent.Evidence{Checks: []agent.CheckResult{passed}}, true, "\n\nOutcome: done.\n\nChecks: `make test` passed (12 s)"},
		{&agent.Evidence{Checks: []agent.CheckResult{passed, failed}}, true, "\n\nOutcome: partly.\n\nChecks:\n\n- `make test` passed (12 s)\n- `echo 'id' # x` failed with exit status 1 (5 ms)"},
		{&agent.Evidence{Checks: []agent.CheckResult{passed, failed}, Stale: true}, false, "\n\nOutcome: partly.\n\nChecks: 1 of 2 passed.\n\nThe checks ran on an earlier commit."},
		{&agent.Evidence{Checks: []agent.CheckResult{passed, {State: agent.CheckNotRun}}}, false, "\n\nOutcome: blocked.\n\nChecks: 1 of 2 passed."},
		{&agent.Evidence{Checks: []agent.CheckResult{passed}, Stale: true}, false, "\n\nOutcome: partly.\n\nChecks: 1 of 1 passed.\n\nThe checks ran on an earlier commit."},
		{&agent.Evidence{Goal: &agent.GoalVerdict{Met: true}}, true, "\n\nOutcome: done.\n\nGoal: met, as a second model judged."},
		{&agent.Evidence{Goal: &agent.GoalVerdict{}}, true, "\n\nOutcome: partly.\n\nGoal: not met, as a second model judged."},
		{&agent.Evidence{Goal: &agent.GoalVerdict{Failure: "x"}}, true, "\n\nOutcome: blocked."},
		{&agent.Evidence{Bugfixes: []agent.Bugfix{{ID: "B-1"}}}, true, ""},
	} {
		if got := checksText(c.e, c.shown); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

// TestMediaText checks which artifacts reviewers are told of.
func TestMediaText(t *testing.T) {
	const head = "\n\nScreenshots and recordings, on the [agent's page](https://a):\n\n- "
	var many []string
	for range 22 {
		many = append(many, "x.png")
	}
	for _, c := range []struct {
		names []string
		want  string
	}{
		{nil, ""},
		{[]string{"report.html", "data.csv"}, ""},
		{[]string{"demo.WEBM", "list-after.png", "list-before.png", "before.png"}, head + "before and after: `list-before.png`, `list-after.png`\n- `demo.WEBM`\n- `before.png`"},
		{[]string{"a`b\n](x).png"}, head + "`a'b ](x).png`"},
		{many, head + strings.Repeat("`x.png`\n- ", 20) + "and 2 more"},
	} {
		if got := mediaText(c.names, "https://a"); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
