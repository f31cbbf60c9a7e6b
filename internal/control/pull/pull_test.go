package pull_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"aloft/internal/agent"
	"aloft/internal/control/forge"
	"aloft/internal/control/forge/fake"
	"aloft/internal/control/gateway"
	"aloft/internal/control/pull"
	"aloft/internal/control/store"
	"aloft/internal/control/store/sqlite"
	"aloft/internal/conversation"
	"aloft/internal/fault"
)

const (
	repoURL = "https://git.test/o/r.git"
	branch  = "aloft/mend-1"
)

// git simulates a git server that also tells the forge about pushes.
type git struct {
	refs    gateway.RefInfo
	commits []gateway.Commit
	files   map[string]string
	changes map[string]gateway.Change // by "base tip"
}

func (g *git) Change(_ context.Context, _, base, tip string, _ int) (gateway.Change, error) {
	c, ok := g.changes[base+" "+tip]
	if !ok {
		return c, fault.NotFound("no commit %s", tip).Named("ref_not_found")
	}
	return c, nil
}

func (g *git) Check(_ context.Context, _, ref string) (gateway.RefInfo, error) {
	info := g.refs
	if ref != "" {
		if info.Commit = info.Branches[ref]; info.Commit == "" {
			return info, fault.NotFound("no %s", ref).Named("ref_not_found")
		}
		info.Branch = ref
	}
	return info, nil
}

func (g *git) Log(context.Context, string, string, string, int) ([]gateway.Commit, error) {
	return g.commits, nil
}

func (g *git) Files(_ context.Context, _, _ string, paths []string) (gateway.Tree, error) {
	t := gateway.Tree{Files: map[string]gateway.Blob{}}
	for _, p := range paths {
		if text, ok := g.files[p]; ok {
			t.Files[p] = gateway.Blob{ID: p, Size: int64(len(text))}
		}
	}
	return t, nil
}

func (g *git) Contents(_ context.Context, _ string, b gateway.Blob, _ int64) ([]byte, error) {
	return []byte(g.files[b.ID]), nil
}

// office is a Desk with a forge, and an agent that has pushed its branch.
type office struct {
	t     *testing.T
	forge *fake.Forge
	repo  forge.Repo
	git   *git
	store *sqlite.Store
	desk  *pull.Desk
	id    string
	head  string
}

func newOffice(t *testing.T) *office {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "aloft.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	f := fake.New("git.test")
	o := &office{t: t, forge: f, repo: f.Add("o/r", "main"), store: s, id: agent.NewID()}
	o.head = f.Push(o.repo, branch)
	o.git = &git{
		refs:    gateway.RefInfo{DefaultBranch: "main", Branches: map[string]string{"main": strings.Repeat("a", 40), branch: o.head}},
		commits: []gateway.Commit{{Subject: "api: mend the list", Body: "It was broken."}},
		files:   map[string]string{},
	}
	o.desk = pull.New(pull.Config{
		Forges: forge.Set{"git.test": f}, Git: o.git, Journal: s, Link: func(id string) string { return "https://aloft.test/agents/" + id },
		Secrets: func(string) map[string]string { return map[string]string{"token": "s3cr3t-value"} },
	})
	head := int64(0)
	run := agent.NewRunID()
	o.append(store.Append{AgentID: o.id, IfHead: &head, Events: []agent.Event{
		{Body: &agent.Created{Name: "Mend it", Branch: branch, Repos: []agent.Repo{{URL: repoURL}}}},
		{RunID: run, Body: &agent.RunCreated{Prompt: conversation.Text(conversation.User, "Mend the list\nplease")}},
		{RunID: run, Body: &agent.MachineReady{MachineID: "m", BootID: "b", BaseCommit: strings.Repeat("a", 40), Branch: branch}},
		{RunID: run, Body: &agent.TurnReplied{Message: conversation.Text(conversation.Assistant, "Mended, with s3cr3t-value.")}},
		{RunID: run, Body: &agent.Pushed{RepoURL: repoURL, Branch: branch, Commit: o.head}},
		{RunID: run, Body: &agent.RunEnded{Status: agent.Finished, Result: "Mended."}},
	}})
	return o
}

func (o *office) append(a store.Append) {
	o.t.Helper()
	if _, err := o.store.Append(o.t.Context(), a); err != nil {
		o.t.Fatal(err)
	}
}

func (o *office) state() *agent.State {
	o.t.Helper()
	events, err := o.store.Read(o.t.Context(), o.id, 0, 1000)
	if err != nil {
		o.t.Fatal(err)
	}
	return agent.Fold(o.id, events)
}

func (o *office) propose(commit string, w pull.Options) (agent.PullRequestAsked, error) {
	asked, err := o.desk.Propose(o.t.Context(), o.state(), 0, commit, w)
	asked.By = agent.PullByRun
	return asked, err
}

// all returns the pull requests on the forge, newest first.
func (o *office) all() []forge.PullRequest {
	o.t.Helper()
	all, err := o.forge.Find(o.t.Context(), o.repo, branch)
	if err != nil {
		o.t.Fatal(err)
	}
	return all
}

func TestOpenIsOnce(t *testing.T) {
	o := newOffice(t)
	asked, err := o.propose(o.head, pull.Options{LastWords: "Mended, with s3cr3t-value."})
	if err != nil {
		t.Fatal(err)
	}
	if asked.Title != "api: mend the list" || asked.Base != "main" || !strings.HasPrefix(asked.Body, "Mended, with") ||
		strings.Contains(asked.Body, "s3cr3t-value") || !strings.Contains(asked.Body, "https://aloft.test/agents/"+o.id) {
		t.Errorf("asked %+v", asked)
	}
	for try := range 3 { // simulate a crash: the journal lacks the result
		opened, err := o.desk.Open(t.Context(), o.state().Agent, asked)
		if err != nil || opened.Made != (try == 0) || opened.PullRequest.Number != 1 || opened.PullRequest.State != "open" {
			t.Fatalf("try %d: %+v, %v", try, opened, err)
		}
	}
	if all := o.all(); len(all) != 1 || all[0].Body != asked.Body {
		t.Errorf("there are %+v", all)
	}
}

// TestAPersonsWordsStay checks that a follow-up replaces text that the agent
// wrote, but not text that a person wrote.
func TestAPersonsWordsStay(t *testing.T) {
	o := newOffice(t)
	open := func(said string, force bool) agent.PullRequest {
		t.Helper()
		asked, err := o.propose(o.head, pull.Options{LastWords: said})
		if err != nil {
			t.Fatal(err)
		}
		asked.Force = force
		opened, err := o.desk.Open(t.Context(), o.state().Agent, asked)
		if err != nil {
			t.Fatal(err)
		}
		o.append(store.Append{AgentID: o.id, Events: []agent.Event{{Body: &opened}}})
		return opened.PullRequest
	}
	open("First.", false)
	open("Second.", false)
	if body := o.all()[0].Body; !strings.HasPrefix(body, "Second.") {
		t.Errorf("the body is %q", body)
	}
	words := "What a person says."
	if _, err := o.forge.Update(t.Context(), o.repo, 1, forge.Change{Body: &words}); err != nil {
		t.Fatal(err)
	}
	open("Third.", false)
	open("Fourth.", false)
	if body := o.all()[0].Body; body != words {
		t.Errorf("the body is %q", body)
	}
	if p := open("Fifth.", true); !strings.HasPrefix(o.all()[0].Body, "Fifth.") || p.Number != 1 {
		t.Errorf("asked to, it is %+v", o.all())
	}
}

// TestHooksPassedOverAreTold checks that every pull request says when git hooks
// were skipped, whoever wrote its text.
func TestHooksPassedOverAreTold(t *testing.T) {
	o := newOffice(t)
	o.append(store.Append{AgentID: o.id, Events: []agent.Event{{Body: &agent.Pushed{RepoURL: repoURL, Branch: branch, Commit: o.head, Unhooked: "the pre-push hook said s3cr3t-value"}}}})
	for _, opts := range []pull.Options{{}, {Title: "A title", Body: "A body."}, {Body: "A body."}} {
		asked, err := o.propose(o.head, opts)
		if err != nil || !strings.Contains(asked.Body, "git hooks were skipped:\n\n- the pre-push hook said") || strings.Contains(asked.Body, "s3cr3t-value") {
			t.Errorf("%+v: the body is %q, %v", opts, asked.Body, err)
		}
	}
}

func TestNothingToPropose(t *testing.T) {
	o := newOffice(t)
	if _, err := o.propose(strings.Repeat("a", 40), pull.Options{}); fault.Of(err).Code != agent.CodeNoChanges {
		t.Errorf("without a change: %v", err)
	}
	if _, err := o.propose(o.head, pull.Options{Base: "nowhere"}); fault.Of(err).Code != "ref_not_found" {
		t.Errorf("a base that is not there: %v", err)
	}
	if _, err := o.propose(o.head, pull.Options{Base: branch}); fault.Of(err).Code != "same_branch" {
		t.Errorf("into itself: %v", err)
	}
	for url, code := range map[string]string{"https://elsewhere.test/o/r": forge.CodeNotConfigured, "file:///srv/r.git": forge.CodeNotConfigured, "git@git.test:o/r": "", "https://GIT.test/o/r": ""} {
		if err := o.desk.Can(url); (err == nil) != (code == "") || err != nil && fault.Of(err).Code != code {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// TestClosedStaysClosed checks that the server does not reopen a pull request
// that a person has closed.
func TestClosedStaysClosed(t *testing.T) {
	o := newOffice(t)
	asked, err := o.propose(o.head, pull.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.desk.Open(t.Context(), o.state().Agent, asked); err != nil {
		t.Fatal(err)
	}
	closed := forge.Closed
	if _, err := o.forge.Update(t.Context(), o.repo, 1, forge.Change{State: &closed}); err != nil {
		t.Fatal(err)
	}
	if _, err := o.desk.Open(t.Context(), o.state().Agent, asked); fault.Of(err).Code != "pull_request_closed" || fault.Of(err).Advice == "" {
		t.Errorf("by itself: %v", err)
	}
	if p, err := o.desk.ByHand(t.Context(), 1, o.id, "", pull.Options{Title: "Again"}); err != nil || p.Number != 2 || p.Title != "Again" {
		t.Errorf("by hand: %+v, %v", p, err)
	}
}

// TestProposal checks that no run replaces text that a person wrote, and that
// the proposed text is used if there is none.
func TestProposal(t *testing.T) {
	o := newOffice(t)
	would, err := o.desk.Proposal(t.Context(), o.id, "")
	if err != nil || would.Title != "api: mend the list" || would.Base != "main" || !strings.HasPrefix(would.Body, "Mended, with") || strings.Contains(would.Body, "s3cr3t-value") {
		t.Fatalf("%+v, %v", would, err)
	}
	if n := len(o.forge.Calls()); n != 0 {
		t.Errorf("the forge was asked %d times", n)
	}
	if _, err := o.desk.Proposal(t.Context(), o.id, "https://git.test/o/other"); fault.Of(err).Field != "repoUrl" {
		t.Errorf("another repository: %v", err)
	}
	p, err := o.desk.ByHand(t.Context(), 1, o.id, "", pull.Options{})
	if err != nil || p.Title != would.Title || o.all()[0].Body != would.Body {
		t.Fatalf("%+v, %v; proposed was %+v", p, err, would)
	}
	if _, err := o.desk.ByHand(t.Context(), 1, o.id, "", pull.Options{Title: "A person's"}); err != nil {
		t.Fatal(err)
	}
	asked, err := o.propose(o.head, pull.Options{LastWords: "By the next run."})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.desk.Open(t.Context(), o.state().Agent, asked); err != nil {
		t.Fatal(err)
	}
	if now := o.all()[0]; now.Title != "A person's" || strings.HasPrefix(now.Body, "By the next") {
		t.Errorf("a follow-up made it %q, %q", now.Title, now.Body)
	}
}

// TestReviewers checks that the agent's creator gets one request to review,
// unless they opted out, the pull request is a draft, or they opened it
// themselves.
func TestReviewers(t *testing.T) {
	for name, c := range map[string]struct {
		login string
		draft bool
		fails error
		want  []string
	}{
		"Asked":  {login: "ada", want: []string{"ada"}},
		"Draft":  {login: "ada", draft: true},
		"Nobody": {},
		"Author": {login: strings.ToUpper(fake.Login)},
		"Fails":  {login: "ada", fails: fault.Invalid("no such person")},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOffice(t)
			var log strings.Builder
			o.desk.Logger = slog.New(slog.NewTextHandler(&log, nil))
			o.desk.Reviewers = func(_ context.Context, a agent.Agent, host string) ([]string, error) {
				if a.ID != o.id || host != "git.test" {
					t.Errorf("asked for %s at %s", a.ID, host)
				}
				if c.login == "" {
					return nil, nil
				}
				return []string{c.login}, c.fails
			}
			for range 2 { // the second call finds the pull request open
				if _, err := o.desk.ByHand(t.Context(), 1, o.id, "", pull.Options{Draft: c.draft}); err != nil {
					t.Fatal(err)
				}
			}
			if got := o.forge.Reviewers(o.repo, 1); !slices.Equal(got, c.want) {
				t.Errorf("%v were asked, want %v", got, c.want)
			}
			if told := log.Len() > 0; told != (c.fails != nil) {
				t.Errorf("logged %q", log.String())
			}
		})
	}
	o := newOffice(t)
	o.desk.Reviewers = func(context.Context, agent.Agent, string) ([]string, error) { return []string{"ada"}, nil }
	s := o.state()
	s.Agent.Pull.SkipReviewers = true
	asked, err := o.propose(o.head, pull.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.desk.Open(t.Context(), s.Agent, asked); err != nil || len(o.forge.Reviewers(o.repo, 1)) != 0 {
		t.Errorf("%v; asked %v", err, o.forge.Reviewers(o.repo, 1))
	}
}

// TestAsApp checks that pull requests are opened as the GitHub App if the user
// wants that, and fail if there is no App.
func TestAsApp(t *testing.T) {
	o := newOffice(t)
	asked, err := o.propose(o.head, pull.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a := o.state().Agent
	a.Pull.AsApp = true
	for _, app := range []func(forge.Repo) forge.Forge{nil, func(forge.Repo) forge.Forge { return nil }} {
		o.desk.App = app
		if err := o.desk.CanAsApp(repoURL); fault.Of(err).Code != forge.CodeNotConfigured || !strings.Contains(err.Error(), "no GitHub App is configured for git.test/o/r") {
			t.Errorf("without an App: %v", err)
		}
		if _, err := o.desk.Open(t.Context(), a, asked); fault.Of(err).Code != forge.CodeNotConfigured {
			t.Errorf("opened without an App: %v", err)
		}
	}
	app := fake.New("git.test")
	app.SetHead(app.Add("o/r", "main"), branch, o.head)
	o.desk.App = func(r forge.Repo) forge.Forge {
		if r != o.repo {
			t.Errorf("asked for the App of %v", r)
		}
		return app
	}
	if err := o.desk.CanAsApp(repoURL); err != nil {
		t.Error(err)
	}
	opened, err := o.desk.Open(t.Context(), a, asked)
	if err != nil || !opened.Made || len(app.PullRequests(o.repo)) != 1 || len(o.all()) != 0 {
		t.Errorf("as the App: %+v, %v", opened, err)
	}
	a.Pull.AsApp = false
	if opened, err := o.desk.Open(t.Context(), a, asked); err != nil || !opened.Made || len(o.all()) != 1 {
		t.Errorf("not as the App: %+v, %v", opened, err)
	}
}

// TestReviewersAfterACrash checks that reviews are requested exactly once even
// if the server dies after opening a pull request and before journaling it.
func TestReviewersAfterACrash(t *testing.T) {
	for name, early := range map[string]bool{"BeforeTheyWereAsked": true, "BeforeItWasJournaled": false} {
		t.Run(name, func(t *testing.T) {
			o := newOffice(t)
			ctx, die := context.WithCancel(t.Context())
			defer die()
			o.desk.Reviewers = func(context.Context, agent.Agent, string) ([]string, error) {
				if early {
					die()
				}
				return []string{"ada"}, nil
			}
			asked, err := o.propose(o.head, pull.Options{})
			if err != nil {
				t.Fatal(err)
			}
			o.append(store.Append{AgentID: o.id, Events: []agent.Event{{Body: &asked}}})
			if _, err := o.desk.Open(ctx, o.state().Agent, asked); err != nil {
				t.Fatal(err)
			}
			if got := o.forge.Reviewers(o.repo, 1); early != (len(got) == 0) {
				t.Fatalf("%v were asked before the server died", got)
			}
			opened, err := o.desk.Open(t.Context(), o.state().Agent, asked)
			if err != nil || opened.PullRequest.Number != 1 {
				t.Fatalf("%+v, %v", opened, err)
			}
			if got := o.forge.Reviewers(o.repo, 1); !slices.Equal(got, []string{"ada"}) {
				t.Errorf("%v were asked", got)
			}
			// Once the request for a review is in the journal, no other is
			// made.
			o.append(store.Append{AgentID: o.id, Events: []agent.Event{{Body: &opened}}})
			o.forge.Calls()
			if _, err := o.desk.Open(t.Context(), o.state().Agent, asked); err != nil {
				t.Fatal(err)
			}
			if more := o.forge.Calls(); slices.Contains(more, "RequestReview") {
				t.Errorf("asked again: %v", more)
			}
		})
	}
}

// TestReviewersOfAnothersPullRequest checks that no review is requested for a
// pull request that somebody else opened from the agent's branch.
func TestReviewersOfAnothersPullRequest(t *testing.T) {
	o := newOffice(t)
	o.desk.Reviewers = func(context.Context, agent.Agent, string) ([]string, error) { return []string{"ada"}, nil }
	if _, err := o.forge.Open(t.Context(), forge.NewPullRequest{Repo: o.repo, Head: branch, Base: "main", Title: "Mine", Body: "By hand."}); err != nil {
		t.Fatal(err)
	}
	asked, err := o.propose(o.head, pull.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.desk.Open(t.Context(), o.state().Agent, asked); err != nil || len(o.forge.Reviewers(o.repo, 1)) != 0 {
		t.Errorf("%v; asked %v", err, o.forge.Reviewers(o.repo, 1))
	}
}

func TestByHand(t *testing.T) {
	o := newOffice(t)
	o.forge.Fail(fault.Denied("the token is not good").Named(forge.CodeUnauthorized))
	if _, err := o.desk.ByHand(t.Context(), 1, o.id, "", pull.Options{}); fault.Of(err).Code != forge.CodeUnauthorized {
		t.Fatal(err)
	}
	if p := o.state().Agent.PullRequest(repoURL, branch); p == nil || p.Failure == nil || p.Failure.Code != forge.CodeUnauthorized || p.URL != "" {
		t.Errorf("the journal has %+v", p)
	}
	p, err := o.desk.ByHand(t.Context(), 1, o.id, repoURL, pull.Options{Title: "By hand", Body: "Words.", Draft: true})
	if err != nil || !p.Draft || p.Title != "By hand" {
		t.Fatalf("%+v, %v", p, err)
	}
	if known := o.state().Agent.PullRequest(repoURL, branch); known == nil || known.URL != p.URL || known.Failure != nil {
		t.Errorf("the journal has %+v", known)
	}
	if _, err := o.desk.ByHand(t.Context(), 1, o.id, "https://git.test/o/other", pull.Options{}); fault.Of(err).Field != "repoUrl" {
		t.Errorf("another repository: %v", err)
	}
}

// TestList checks that news from the forge is journaled once, and that
// concurrent readers share one request to the forge.
func TestList(t *testing.T) {
	o := newOffice(t)
	p, err := o.desk.ByHand(t.Context(), 1, o.id, "", pull.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o.forge.SetCheck(o.repo, o.head, forge.Check{Name: "test", State: forge.Failure, Summary: "2 failed"})
	closed := forge.Closed
	if _, err := o.forge.Update(t.Context(), o.repo, int(p.Number), forge.Change{State: &closed}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		all, err := o.desk.List(t.Context(), o.state().Agent)
		if err != nil || len(all) != 1 || all[0].State != "closed" || len(all[0].Checks) != 1 || forge.Verdict(all[0].Checks) != forge.Failure {
			t.Fatalf("%+v, %v", all, err)
		}
	}
	events, err := o.store.Read(t.Context(), o.id, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(slices.DeleteFunc(events, func(e agent.Event) bool { return e.Body.Kind() != "pull_request.seen" })); n != 1 {
		t.Errorf("it was journaled %d times", n)
	}
	if gets := strings.Count(strings.Join(o.forge.Calls(), " "), "Get"); gets != 1 {
		t.Errorf("the forge was asked %d times: %v", gets, o.forge.Calls())
	}
}

func TestFound(t *testing.T) {
	o := newOffice(t)
	p, err := o.desk.ByHand(t.Context(), 1, o.id, "", pull.Options{})
	if err != nil {
		t.Fatal(err)
	}
	found, err := o.desk.Found(t.Context(), repoURL, p.URL)
	if err != nil || found.Branch != branch || found.Base != "main" || found.RepoURL != repoURL || found.Body != "" {
		t.Errorf("%+v, %v", found, err)
	}
	if url, err := o.desk.RepoOf("", p.URL); err != nil || url != "https://git.test/o/r" {
		t.Errorf("%s, %v", url, err)
	}
	if _, err := o.desk.RepoOf("https://git.test/o/other", p.URL); err == nil {
		t.Error("another repository than the pull request's")
	}
	if _, err := o.desk.Found(t.Context(), repoURL, "https://git.test/o/r/pulls/99"); fault.Of(err).Code != forge.CodeNotFound {
		t.Errorf("none: %v", err)
	}
}

// If a forge does not reply to a request for a review, the server retries for a
// limited time. Then the pull request says that no reviewer was asked, and the next
// run retries.
func TestReviewersOfAForgeThatFails(t *testing.T) {
	o := newOffice(t)
	o.desk.Reviewers = func(context.Context, agent.Agent, string) ([]string, error) { return []string{"ada"}, nil }
	asked, err := o.propose(o.head, pull.Options{})
	if err != nil {
		t.Fatal(err)
	}
	asked.By = agent.PullByRun
	broken := fault.Unavailable("git.test answers 502").Named(forge.CodeUnreachable)
	away := &awayForReviews{Forge: o.forge, err: broken}
	o.desk.Forges = forge.Set{"git.test": away}
	open := func(failures int) agent.PullRequestOpened {
		t.Helper()
		var opened agent.PullRequestOpened
		away.left = failures
		a := o.state().Agent
		synctest.Test(t, func(t *testing.T) {
			var err error
			if opened, err = o.desk.Open(t.Context(), a, asked); err != nil {
				t.Fatal(err)
			}
		})
		o.append(store.Append{AgentID: o.id, Events: []agent.Event{{Body: &opened}}})
		return opened
	}
	if opened := open(100); opened.PullRequest.ReviewFailure == nil || !strings.Contains(opened.PullRequest.ReviewFailure.Message, "502") || away.left < 90 || away.left > 97 {
		t.Errorf("after %d tries: %+v", 100-away.left, opened.PullRequest)
	}
	if p := o.state().Agent.PullRequests[0]; p.ReviewFailure == nil || p.URL == "" {
		t.Errorf("the journal has %+v", p)
	}
	if opened := open(3); opened.PullRequest.ReviewFailure != nil || !slices.Equal(o.forge.Reviewers(o.repo, 1), []string{"ada"}) {
		t.Errorf("%+v; asked %v", opened.PullRequest, o.forge.Reviewers(o.repo, 1))
	}
	o.forge.Calls()
	if opened := open(100); opened.PullRequest.ReviewFailure != nil || away.left != 100 {
		t.Errorf("asked again after it was done: %+v", opened.PullRequest)
	}
}

// awayForReviews is a forge whose next requests for reviews fail.
type awayForReviews struct {
	*fake.Forge
	err  error
	left int // remaining failures
}

func (f *awayForReviews) RequestReview(ctx context.Context, r forge.Repo, number int, logins []string) error {
	if f.left > 0 {
		f.left--
		return f.err
	}
	return f.Forge.RequestReview(ctx, r, number, logins)
}

// If an earlier run was private, the text of a later run that is not private
// does not contain the earlier prompt.
func TestAnEarlierPrivateRunIsNotTold(t *testing.T) {
	o := newOffice(t)
	o.git.commits = append(o.git.commits, o.git.commits[0])
	first := o.state().Run
	o.desk.Privacy = func(_ context.Context, r agent.Run) (bool, error) { return r.CreatedAt.Equal(first.CreatedAt), nil }
	run := agent.NewRunID()
	o.append(store.Append{AgentID: o.id, Events: []agent.Event{
		{RunID: run, Body: &agent.RunCreated{Prompt: conversation.Text(conversation.User, "Now the tree\nplease")}},
		{RunID: run, Body: &agent.RunStarted{}},
	}})
	asked, err := o.propose(o.head, pull.Options{LastWords: "Mended too."})
	if err != nil || asked.Title != "Now the tree" || !strings.Contains(asked.Body, "Mended too.") || strings.Contains(asked.Body, "Mend it") {
		t.Errorf("%q, %q, %v", asked.Title, asked.Body, err)
	}
}
