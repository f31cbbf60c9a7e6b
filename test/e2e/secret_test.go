package e2e

import (
	"fmt"
	"strings"
	"testing"

	"aloft/internal/control/gateway/gittest"
	"aloft/internal/telemetry/telemetrytest"
)

// A machine that has obtained the server's token can neither print nor push it.
// The command joins two halves of the token, so that the script does not
// contain it.
func TestASecretDoesNotComeOutOfAMachine(t *testing.T) {
	t.Parallel()
	const token = "glpat-very-secret-token-0001"
	git := gittest.New(t)
	url := git.Repo("r", map[string]string{"README.md": "r\n"})
	receiver := telemetrytest.Start(t, "")
	a := start(t, scripted(t, `
scripts:
  - match: say
    turns:
      - calls:
          - {tool: Shell, args: {command: "A=glpat-very-; B=secret-token-0001; echo plain $A$B; printf $A; sleep 0.2; echo $B; echo -n x$A$B | base64; echo -n $A$B | od -An -v -tx1 | tr -d ' '"}}
      - text: Said.
  - match: push it
    turns:
      - calls:
          - {tool: Shell, args: {command: "A=glpat-very-; B=secret-token-0001; echo $A$B > leak.env"}}
      - text: Written.
  - match: mend it
    turns:
      - calls:
          - {tool: Shell, args: {command: "A=glpat-very-; B=secret-token-0001; echo $A$B > mend.env; git add -A; git commit -qm more; echo done > done.txt"}}
      - text: Written.
  - match: was not pushed(?s:.*) mend.env in commit
    turns:
      - calls:
          - {tool: Shell, args: {command: "git reset -q --soft origin/main; git rm -q --cached mend.env; rm mend.env; git commit -qm mended"}}
      - text: Mended.
  - match: was not pushed
    turns:
      - text: Never.
`)+fmt.Sprintf(`
git:
  credentials:
    - {url: "https://nowhere.example", username: aloft, token: %s}
telemetry: {endpoint: %q, insecure: true, ghost_mode: false}
`, token, receiver.URL))
	r := a.finish(a.create(url, "say it", nil))
	events := a.events(r.AgentID)
	if strings.Contains(events, "secret-token-0001\\n") || !strings.Contains(events, "plain [REDACTED]") {
		t.Errorf("the journal:\n%s", events)
	}
	for _, line := range strings.Split(events, "\n") {
		if !strings.Contains(line, `"call.delta"`) && !strings.Contains(line, `"call.done"`) {
			continue
		}
		for _, form := range []string{token, "bHBhdC12ZXJ5", "676c7061742d76"} {
			if strings.Contains(line, form) {
				t.Errorf("%s is in the journal: %s", form, line)
			}
		}
	}
	second := a.create(url, "push it", nil)
	a.endsIn(second, "secret_in_push")
	if _, message, _, _ := a.why(second); !strings.Contains(message, "leak.env in commit") || strings.Contains(message, token) {
		t.Errorf("the run ended with %s", message)
	}

	if n := strings.Count(a.events(second.AgentID), "was not pushed"); n != 3 {
		t.Errorf("the model was told of it %d times", n)
	}
	third := a.finish(a.create(url, "mend it", nil))
	if got := gittest.Git(t, git.Path("r"), "log", "--name-only", "--format=%s", "main.."+pushed(t, third)); got != "mended\n\ndone.txt" {
		t.Errorf("pushed: %q", got)
	}

	// Only admins can read the metrics, and traces contain only times and
	// names.
	status, text := a.do("GET", "/metrics", nil)
	if status != 200 || !strings.Contains(text, `aloft_runs_ended_total{code="secret_in_push",status="ERROR"} 1`) ||
		!strings.Contains(text, `aloft_tool_calls_total{outcome="ok",tool="Shell"} 4`) {
		t.Errorf("%d\n%s", status, text)
	}
	a.Stop()
	receiver.Await(t, "the trace of a run", func() bool { return receiver.Spans()["run"] != nil && receiver.Spans()["tool Shell"] != nil })
	for _, not := range []string{token, "glpat", "say it", "leak.env"} {
		if strings.Contains(receiver.Text(), not) {
			t.Errorf("%q was sent", not)
		}
	}
}
