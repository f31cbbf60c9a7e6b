package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/control/gateway/gittest"
)

// A person reviews the local changes of a checkout. The machine has the changes
// staged on the commit at which the checkout diverged from the remote. The
// command prints the findings, and nothing is pushed.
func TestReviewOfACheckout(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	url := git.Repo("acme/widget", map[string]string{"list.go": "package list\n\nfunc Last(l []int) int {\n\treturn l[len(l)-1]\n}\n", "README.md": "w\n"})
	a := start(t, scripted(t, `
scripts:
  - turns:
      - calls: [{tool: Shell, args: {command: "git diff --cached --stat; cat new.txt; git status --short; env | grep -c WIDGET_TOKEN"}}]
      - calls: [{tool: Shell, args: {command: "git commit -qam x; git push origin HEAD:refs/heads/stolen 2>&1"}}]
      - calls:
          - tool: ReportFindings
            args:
              findings:
                - {path: list.go, line: 4, severity: FINDING_SEVERITY_HIGH, title: Index out of range, body: "It panics, always.", suggestion: "\treturn l[len(l)-1]\n"}
                - {path: README.md, line: 1, severity: FINDING_SEVERITY_LOW, title: Not changed, body: x}
      - text: One bug.
`)+"policy: {run_mode: run-everything}\n")
	if status, text := a.do("PUT", "/v1/team/secrets/WIDGET_TOKEN", object{"value": "widget-token-value"}); status >= 300 {
		t.Fatalf("%d %s", status, text)
	}
	dir := filepath.Join(t.TempDir(), "widget")
	gittest.Git(t, "", "clone", "-q", url, dir)
	for name, text := range map[string]string{"list.go": "package list\n\nfunc Last(l []int) int {\n\treturn l[len(l)]\n}\n", "new.txt": "new\n", "loose.txt": "x\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	gittest.Git(t, dir, "add", "-N", "new.txt")
	review := func(args ...string) (stdout, stderr string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), binary(t), append([]string{"review"}, args...)...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "ALOFT_URL="+a.URL, "ALOFT_API_KEY="+a.Key, "SUDO_UID=")
		var out, said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &said
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v\n%s%s", err, out.String(), said.String())
		}
		return out.String(), said.String()
	}
	text, said := review()
	t.Log(text + said)
	for _, want := range []string{"high  list.go:4  Index out of range\n    It panics, always.\n    Suggestion:\n    + \treturn l[len(l)-1]\n", "1 finding\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("it lacks %q", want)
		}
	}
	if !strings.Contains(said, "1 file that git does not track") {
		t.Errorf("it does not say what is not reviewed")
	}
	text, _ = review("--json")
	var shown struct {
		Agent    struct{ ID string }
		Run      struct{ Status string }
		Findings []struct {
			Path, Severity string
			Line, EndLine  int
		}
	}
	if err := json.Unmarshal([]byte(text), &shown); err != nil || len(shown.Findings) != 1 || shown.Findings[0].Line != 4 || shown.Findings[0].Severity != "high" || shown.Run.Status != "FINISHED" {
		t.Fatalf("%v: %s", err, text)
	}
	log := a.events(shown.Agent.ID)
	for _, want := range []string{"2 files changed", "new\\nM  list.go\\nA  new.txt\\n0\\n", "findings[1]: the change does not have the file"} {
		if !strings.Contains(log, want) {
			t.Errorf("the model was not told %q:\n%s", want, last(log))
		}
	}
	if refs := gittest.Git(t, git.Path("acme/widget"), "for-each-ref", "--format=%(refname)"); refs != "refs/heads/main" {
		t.Errorf("branches of the repository: %s", refs)
	}
}
