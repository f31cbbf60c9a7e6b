package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"aloft/internal/control/forge"
	"aloft/internal/control/forge/forgetest"
	"aloft/internal/control/gateway/gittest"
)

// oneHost serves a git server and the API of a forge at one address, as a forge does.
func oneHost(t *testing.T, git *gittest.Server, host *forgetest.Server) (address string) {
	t.Helper()
	to, err := url.Parse(git.URL)
	if err != nil {
		t.Fatal(err)
	}
	repositories := httputil.NewSingleHostReverseProxy(to)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if rest, ok := strings.CutPrefix(r.URL.Path, "/api/v3"); ok {
			r.URL.Path, r.URL.RawPath = rest, strings.TrimPrefix(r.URL.RawPath, "/api/v3")
			host.ServeHTTP(w, r)
			return
		}
		if r.URL.Path == "/api/graphql" {
			r.URL.Path = "/graphql"
			host.ServeHTTP(w, r)
			return
		}
		repositories.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	host.URL = server.URL
	return server.URL
}

// The server reviews a pull request from a fork. The findings become one review,
// even if the server is killed after the forge has stored it and before the forge
// has replied. After the next push, an event starts another review, which resolves
// the fixed findings. A comment requests a third. The machine has no secrets, and
// its HEAD is the base.
func TestReviewOfAPullRequest(t *testing.T) {
	t.Parallel()
	git, host := gittest.New(t), forgetest.NewGitHub(t)
	base := func(last string) map[string]string {
		return map[string]string{"list.go": "package list\n\nfunc Last(l []int) int {\n\treturn " + last + "\n}\n"}
	}
	git.Repo("acme/widget", base("l[len(l)-1]"))
	git.SetAuth("x-access-token", forgetest.Token)
	gittest.Git(t, git.Path("acme/widget"), "config", "uploadpack.allowAnySHA1InWant", "true")
	address := oneHost(t, git, host)
	host.Fake.Writers = []string{"ada"}
	push := func(files map[string]string, diff string) (commit string) {
		t.Helper()
		for _, name := range []string{"update-ref refs/heads/fork refs/pull/1/head", "update-ref -d refs/heads/fork"} {
			if strings.HasPrefix(name, "update-ref -d") {
				commit = git.Commit("acme/widget", "fork", "change", files)
				gittest.Git(t, git.Path("acme/widget"), "update-ref", "refs/pull/1/head", commit)
			} else if len(host.Fake.PullRequests(host.Repo)) == 0 {
				continue
			}
			gittest.Git(t, git.Path("acme/widget"), strings.Fields(name)...)
		}
		host.Fake.SetHead(host.Repo, "fork", commit)
		if len(host.Fake.PullRequests(host.Repo)) == 0 {
			if _, err := host.Fake.Open(t.Context(), forge.NewPullRequest{Repo: host.Repo, Head: "fork", Base: "main", Title: "Change Last"}); err != nil {
				t.Fatal(err)
			}
		}
		host.Fake.SetDiff(host.Repo, 1, diff)
		return commit
	}
	const hunk = "diff --git a/list.go b/list.go\n--- a/list.go\n+++ b/list.go\n@@ -1,5 +1,5 @@\n package list\n \n func Last(l []int) int {\n-\treturn l[len(l)-1]\n+\treturn %s\n }\n"
	first := push(base("l[len(l)]"), fmt.Sprintf(hunk, "l[len(l)]"))
	a := start(t, scripted(t, `
scripts:
  - match: "^Review the change.$"
    turns:
      - calls: [{tool: ReportFindings, args: {fixed: [E-1], findings: [{path: list.go, line: 4, severity: FINDING_SEVERITY_LOW, title: Empty lists, body: It panics without elements.}]}}]
      - text: It is fixed.
  - match: "for races"
    turns:
      - text: There are none.
  - turns:
      - calls: [{tool: Shell, args: {command: "git diff --cached --stat; git log --format=%s -1; env | grep -c WIDGET_TOKEN; git push origin HEAD:refs/heads/stolen 2>&1"}}]
      - calls: [{tool: ReportFindings, args: {findings: [{path: list.go, line: 4, severity: FINDING_SEVERITY_HIGH, title: Index out of range, body: "It panics, always.", suggestion: "\treturn l[len(l)-1]\n"}]}}]
      - text: One bug.
`)+fmt.Sprintf(`policy: {run_mode: run-everything}
pull_requests: {poll: 0s, gather: 0s}
mentions: {owner: ada@example.com}
reviews: {repositories: [%q], owner: ada@example.com, fail_on: high, authors: anyone}
connections: [{name: widget, source: github, host: %q, secret: %s}]
git:
  credentials:
    - {url: %s, token: %q, forge: github, api: %[4]s/api/v3}
`, address+"/acme/widget", strings.TrimPrefix(address, "http://"), hookSecret, address, forgetest.Token))
	if status, body := a.do("POST", "/v1/members", object{"email": "ada@example.com", "firstName": "Ada"}); status/100 != 2 {
		t.Fatalf("%d %s", status, body)
	}
	if status, text := a.do("PUT", "/v1/team/secrets/WIDGET_TOKEN", object{"value": "widget-token-value"}); status >= 300 {
		t.Fatalf("%d %s", status, text)
	}
	posting := make(chan struct{})
	var step http.HandlerFunc
	step = func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/reviews") {
			host.ServeHTTP(w, r)
			host.Next(step)
			return
		}
		host.ServeHTTP(httptest.NewRecorder(), r)
		close(posting)
		<-r.Context().Done() // the server is dead
	}
	host.Next(step)
	status, body := a.do("POST", "/v1/agents", object{"prompt": object{"text": "Review the change. It is the first time."}, "review": object{"pullRequest": address + "/acme/widget/pull/1"}})
	var made struct {
		Agent struct{ ID string }
		Run   struct{ ID string }
	}
	if err := json.Unmarshal([]byte(body), &made); err != nil || status != http.StatusCreated {
		t.Fatalf("%d %s", status, body)
	}
	select {
	case <-posting:
	case <-time.After(patience):
		t.Fatalf("nothing was posted; the last of the journal:\n%s", last(a.events(made.Agent.ID)))
	}
	a.Kill()
	a.Start()
	if r := a.next(made.Agent.ID, 1); r.Status != "FINISHED" || r.Result != "One bug." {
		t.Fatalf("the run is %+v", r)
	}
	threads := func(want int) []forge.Thread {
		t.Helper()
		all, err := host.Fake.Threads(t.Context(), host.Repo, 1)
		if err != nil || len(all) != want {
			t.Fatalf("threads %+v, %v", all, err)
		}
		return all
	}
	if c := threads(1)[0].Comments[0]; !strings.Contains(c.Body, "**High: Index out of range**") || !strings.Contains(c.Body, "```suggestion\n\treturn l[len(l)-1]\n```") || c.Line != 4 {
		t.Errorf("the comment is %+v", c)
	}
	reviews := func() []forge.Review {
		t.Helper()
		all, err := host.Fake.Reviews(t.Context(), host.Repo, 1)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	if all := reviews(); len(all) != 1 || all[0].Commit != first {
		t.Fatalf("reviews %+v", all)
	}
	check := func(commit string) forge.CheckState {
		all, err := host.Fake.Checks(t.Context(), host.Repo, commit)
		if err != nil || len(all) != 1 || all[0].Name != "aloft/review" {
			t.Fatalf("checks %+v, %v", all, err)
		}
		return all[0].State
	}
	if check(first) != forge.Failure {
		t.Errorf("the check is %s", check(first))
	}
	var found struct {
		Findings []struct{ Path string }
		Posted   struct{ URL, Commit, Error string }
	}
	if a.get("/v1/agents/"+made.Agent.ID+"/findings", &found); len(found.Findings) != 1 || found.Posted.URL == "" || found.Posted.Commit != first || found.Posted.Error != "" {
		t.Errorf("the API shows %+v", found)
	}
	log := a.events(made.Agent.ID)
	if !strings.Contains(log, "1 file changed") || !strings.Contains(log, `\n0\n`) || strings.Count(log, `"review.composed"`) != 1 || strings.Count(log, `"review.posted"`) != 1 || strings.Contains(log, forgetest.Token) {
		t.Errorf("the journal:\n%s", last(log))
	}
	if refs := gittest.Git(t, git.Path("acme/widget"), "for-each-ref", "--format=%(refname)", "refs/heads"); refs != "refs/heads/main" {
		t.Errorf("branches of the repository: %s", refs)
	}

	second := push(base("l[max(len(l)-1, 0)]"), fmt.Sprintf(hunk, "l[max(len(l)-1, 0)]"))
	event := `{"action":"synchronize","number":1,"pull_request":{"number":1,"head":{"ref":"fork","sha":"` + second + `"}},"repository":{"full_name":"acme/widget"},"sender":{"login":"eve","type":"User"}}`
	for _, delivery := range []string{"d1", "d2"} {
		if got := a.hook(hookSecret, delivery, "pull_request", event); got != http.StatusAccepted {
			t.Fatalf("%s: %d", delivery, got)
		}
	}
	eventually(t, "the new commit is reviewed", func() bool { return len(reviews()) == 2 })
	eventually(t, "the thread is resolved", func() bool { return threads(2)[0].Resolved && !threads(2)[1].Resolved })
	if all := reviews(); all[1].Commit != second || !strings.Contains(all[1].Body, "Only the changes since "+first[:12]) || !strings.Contains(all[1].Body, "Fixed since the last review") {
		t.Errorf("the second review is %+v", all[1])
	}
	eventually(t, "the status is set", func() bool {
		all, err := host.Fake.Checks(t.Context(), host.Repo, second)
		return err == nil && len(all) == 1 && all[0].State == forge.Success
	})

	host.Fake.Say(host.Repo, 1, "ada", "@aloft review it for races")
	if got := a.hook(hookSecret, "d3", "issue_comment", `{"action":"created","issue":{"number":1,"pull_request":{}},"comment":{"id":1,"body":"@aloft review it for races"},"repository":{"full_name":"acme/widget"},"sender":{"login":"ada","type":"User"}}`); got != http.StatusAccepted {
		t.Fatal(got)
	}
	eventually(t, "the comment is answered by a review", func() bool { return len(reviews()) == 3 })
	if all := reviews(); !strings.Contains(all[2].Body, "no new findings") || !strings.Contains(all[2].Body, "There are none.") {
		t.Errorf("the third review is %+v", all[2])
	}
	var list struct{ Items []struct{ ID string } }
	if a.get("/v1/agents?all=true", &list); len(list.Items) != 3 {
		t.Errorf("agents: %+v", list.Items)
	}
}
