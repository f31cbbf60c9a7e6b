package server

import (
	"os"
	"strings"
	"testing"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/automation"
	"aloft/internal/control/gateway"
	"aloft/internal/control/gateway/gittest"
)

// The files that define automations are those of the default branch, and only
// those directly in the folder.
func TestAutomationFiles(t *testing.T) {
	git := gittest.New(t)
	git.Repo("widget", map[string]string{
		".aloft/automations/a.yaml": "name: a\nprompt: x", ".aloft/automations/b.yml": "name: b\nprompt: x", ".aloft/automations/README.md": "x",
		".aloft/automations/deep/c.yaml": "name: c", ".aloft/d.yaml": "name: d", ".aloft/automations/big.yaml": "# " + strings.Repeat("x", 2*automation.MaxSpec),
	})
	git.Commit("widget", "evil", "add", map[string]string{".aloft/automations/evil.yaml": "name: evil\nprompt: x"})
	g, err := gateway.New(gateway.Config{Dir: t.TempDir(), Environ: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	read := automationFiles{g}
	url := git.URL + "/widget.git"
	commit, files, err := read.Automations(t.Context(), url, "")
	if err != nil || len(files) != 3 || string(files[".aloft/automations/a.yaml"]) != "name: a\nprompt: x" || len(files[".aloft/automations/big.yaml"]) != automation.MaxSpec+1 {
		t.Fatalf("%d files at %s, %v: %q, %d bytes", len(files), commit, err, files[".aloft/automations/a.yaml"], len(files[".aloft/automations/big.yaml"]))
	}
	if _, ok := files[".aloft/automations/b.yml"]; !ok {
		t.Error("b.yml is not read")
	}
	if again, files, err := read.Automations(t.Context(), url, commit); again != commit || len(files) != 0 || err != nil {
		t.Errorf("unchanged: %s, %d files, %v", again, len(files), err)
	}
	if _, _, err := read.Automations(t.Context(), git.URL+"/none.git", commit); err == nil {
		t.Error("a missing repository has automations")
	}
}

func TestAutomationsConfig(t *testing.T) {
	for want, c := range map[string]automationsConfig{
		"":                            {Poll: "5m", Repositories: []string{"https://git.test/o/r"}, Owner: "bot@acme.test"},
		"automations.owner":           {Poll: "5m", Repositories: []string{"https://git.test/o/r"}},
		"automations.repositories[0]": {Poll: "5m", Repositories: []string{"widget"}, Owner: "bot@acme.test"},
		"automations.poll":            {Poll: "1s"},
	} {
		err := c.check()
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
}

// TestAutomatedRequest checks what an automation's agent is created with, and that the
// agents of automations for events count as agents whose prompts quote strangers: such
// agents only propose memories.
func TestAutomatedRequest(t *testing.T) {
	n := automation.Start{AgentID: "bc-1", RunID: "run-1", Name: "nightly", Prompt: "p", Spec: automation.Spec{
		Repository: "https://git.test/o/r", StartingRef: "dev", PullRequest: true, Model: "big", Environment: "env", Memory: 1,
	}}
	owner := account.APIKey{UserID: 7}
	q := automatedRequest(n, owner)
	if q.By != owner || q.ID != "bc-1" || q.RunID != "run-1" || q.Prompt.Text != "p" || *q.Name != "nightly" || !q.PullRequest.Auto ||
		q.Model.ID != "big" || *q.Environment.Name != "env" || len(q.Repos) != 1 || *q.Repos[0].StartingRef != "dev" || q.Event != "" {
		t.Errorf("the request is %+v", q)
	}
	n.Spec.On.Event = &automation.OnEvent{}
	if q := automatedRequest(n, owner); q.Event != agent.ByEvent {
		t.Errorf("an event is not recorded: %q", q.Event)
	}
}
