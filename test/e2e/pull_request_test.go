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

// At the end of a run, the server pushes its branch and opens its pull request.
// It opens only one, even if it is killed after the forge has opened the pull
// request and before the forge has replied.
func TestPullRequestOfARun(t *testing.T) {
	t.Parallel()
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

// An agent opens a pull request and waits for CI. It reads the failed check and
// a reviewer's comment, pushes a fix, replies and resolves the thread.
func TestAgentAnswersItsReview(t *testing.T) {
	t.Parallel()
	git, host := gittest.New(t), forgetest.NewGitHub(t)
	url := git.Repo("acme/widget", map[string]string{"README.md": "w\n"})
	git.SetAuth("x-access-token", forgetest.Token)
	const branch = "aloft/work"
	host.Fake.Push(host.Repo, branch)
	const script = `
scripts:
  - turns:
      - calls: [{tool: Shell, args: {command: "echo wrong > list.txt && git add -A && git commit -qm list"}}]
      - calls: [{tool: PrManagement, args: {action: PR_ACTION_CREATE, title: Add the list}}]
      - calls: [{tool: PrManagement, args: {action: PR_ACTION_WAIT_CHECKS}}]
      - calls: [{tool: PrManagement, args: {action: PR_ACTION_LOG}}]
      - calls: [{tool: PrManagement, args: {action: PR_ACTION_WAIT_REPLY}}]
      - calls: [{tool: PrManagement, args: {action: PR_ACTION_THREADS}}]
      - calls: [{tool: Shell, args: {command: "echo right > list.txt && git commit -qam fix"}}]
      - calls: [{tool: PrManagement, args: {action: PR_ACTION_UPDATE}}]
      - calls: [{tool: PrManagement, args: {action: PR_ACTION_REPLY, thread_id: PRRT_kwDO1_1, body: It is right now.}}]
      - calls: [{tool: PrManagement, args: {action: PR_ACTION_RESOLVE, thread_id: PRRT_kwDO1_1}}]
      - text: Done.
`
	a := start(t, scripted(t, script)+fmt.Sprintf("git:\n  credentials:\n    - {url: %s, token: %q, forge: github, api: %s}\n", git.URL, forgetest.Token, host.API))
	r := a.create(url, "Add a list", object{"branchName": branch})
	eventually(t, "the agent waits for CI", func() bool { return strings.Contains(a.events(r.AgentID), `"pull_request.awaited"`) })
	a.Kill() // the wait goes on
	commit := gittest.Git(t, git.Path("acme/widget"), "rev-parse", branch)
	host.Fake.SetCheck(host.Repo, commit, forge.Check{Name: "test", State: forge.Failure, LogID: "1"})
	host.Fake.SetLog(host.Repo, "1", "\x1b[31mFAIL\x1b[0m list.txt is wrong\n")
	host.Fake.SayOn(host.Repo, 1, "ada", "list.txt", 1, "This is wrong.")
	a.Start()
	a.finish(r)
	log := a.events(r.AgentID)
	for _, want := range []string{"failure: test", "FAIL list.txt is wrong", "ada (may write to the repository)", "This is wrong.", "The thread is resolved."} {
		if !strings.Contains(log, want) {
			t.Errorf("%q is not in the journal:\n%s", want, last(log))
		}
	}
	if n := strings.Count(log, `"pull_request.said"`); n != 1 || strings.Contains(log, forgetest.Token) {
		t.Errorf("%d comments are journaled", n)
	}
	threads, err := host.Fake.Threads(t.Context(), host.Repo, 1)
	if err != nil || len(threads) != 1 || !threads[0].Resolved || len(threads[0].Comments) != 2 || !strings.HasPrefix(threads[0].Comments[1].Body, "It is right now.") {
		t.Errorf("threads %+v, %v", threads, err)
	}
	if got := gittest.Git(t, git.Path("acme/widget"), "show", branch+":list.txt"); got != "right" {
		t.Errorf("list.txt holds %q", got)
	}
}
