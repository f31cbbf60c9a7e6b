package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"aloft/internal/control/forge"
	"aloft/internal/control/forge/forgetest"
	"aloft/internal/control/gateway/gittest"
)

// At the end of a run its branch is pushed and its pull request is opened once,
// even if the server is killed after the forge has opened it and before it has
// replied.
func TestPullRequestOfARun(t *testing.T) {
	git, host := gittest.New(t), forgetest.NewGitea(t)
	url := git.Repo("acme/widget", map[string]string{"README.md": "w\n", ".github/pull_request_template.md": "## What\n<!-- say it -->\n\n## Checks\n"})
	git.SetAuth("x-access-token", forgetest.Token)
	const branch = "aloft/work"
	host.Fake.Push(host.Repo, branch)
	a := start(t, scripted(t, oneCall)+fmt.Sprintf("git:\n  credentials:\n    - {url: %s, token: %q, forge: gitea, api: %s}\n", git.URL, forgetest.Token, host.API))
	opened := make(chan struct{})
	var step http.HandlerFunc
	step = func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			host.ServeHTTP(w, r)
			host.Next(step)
			return
		}
		host.ServeHTTP(httptest.NewRecorder(), r)
		close(opened)
		<-r.Context().Done() // the server is dead
	}
	host.Next(step)
	r := a.create(url, "Write a file", object{"autoCreatePR": true, "branchName": branch})
	select {
	case <-opened:
	case <-time.After(patience):
		t.Fatalf("the forge was not asked; the last of the journal:\n%s", last(a.events(r.AgentID)))
	}
	a.Kill()
	a.Start()
	r = a.finish(r)
	all := host.Fake.PullRequests(host.Repo)
	if len(all) != 1 || all[0].Head != branch || all[0].Base != "main" || all[0].State != forge.Open {
		t.Fatalf("the forge has %+v", all)
	}
	if !strings.HasPrefix(all[0].Body, "## What\n\n") || !strings.Contains(all[0].Body, "## Checks") || !strings.Contains(all[0].Body, "/agents/"+r.AgentID) || strings.Contains(all[0].Body, "say it") {
		t.Errorf("the body is %q", all[0].Body)
	}
	if got := gittest.Git(t, git.Path("acme/widget"), "show", branch+":hello.txt"); got != "hello" {
		t.Errorf("hello.txt holds %q", got)
	}
	var shown struct {
		Git struct{ Branches []struct{ PRURL string } }
	}
	if a.get(r.path(), &shown); len(shown.Git.Branches) != 1 || shown.Git.Branches[0].PRURL != host.URL+"/acme/widget/pulls/1" {
		t.Errorf("the run shows %+v", shown)
	}
	if log := a.events(r.AgentID); strings.Count(log, `"pull_request.asked"`) != 1 || strings.Count(log, `"pull_request.opened"`) != 1 || strings.Contains(log, forgetest.Token) {
		t.Errorf("the journal:\n%s", last(log))
	}
	var pulls struct{ Items []struct{ State string } }
	if a.get("/v1/agents/"+r.AgentID+"/pull-requests", &pulls); len(pulls.Items) != 1 || pulls.Items[0].State != "open" {
		t.Errorf("it stands %+v", pulls)
	}
}
