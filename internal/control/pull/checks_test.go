package pull

import (
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
		{&agent.Evidence{Checks: []agent.CheckResult{passed}}, true, "\n\nChecks: `make test` passed (12 s)"},
		{&agent.Evidence{Checks: []agent.CheckResult{passed, failed}}, true, "\n\nChecks:\n\n- `make test` passed (12 s)\n- `echo 'id' # x` failed with exit status 1 (5 ms)"},
		{&agent.Evidence{Checks: []agent.CheckResult{passed, failed}, Stale: true}, false, "\n\nChecks: 1 of 2 passed.\n\nThe checks ran on an earlier commit."},
	} {
		if got := checksText(c.e, c.shown); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
