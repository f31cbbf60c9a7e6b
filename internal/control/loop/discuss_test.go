package loop_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/forge"
	"aloft/internal/control/forge/forgetest"
	"aloft/internal/control/forge/github"
	"aloft/internal/control/loop"
	"aloft/internal/control/pull"
	"aloft/internal/policy/permit"
	"aloft/internal/redact"
)

// discussed returns a rig whose agent has a pull request at a server that
// behaves like GitHub. The agent did not open that pull request.
func discussed(t *testing.T) (*rig, *forgetest.Server) {
	t.Helper()
	s := forgetest.NewGitHub(t)
	f, err := github.New(forge.Options{API: s.API, Tokens: forge.Token(forgetest.Token)})
	if err != nil {
		t.Fatal(err)
	}
	const branch = "aloft/test-0000"
	s.Fake.SetHead(s.Repo, branch, strings.Repeat("c", 40))
	if _, err := f.Open(t.Context(), forge.NewPullRequest{Repo: s.Repo, Head: branch, Base: "main", Title: "By the tool"}); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, true)
	r.id = agent.NewID()
	r.pulls = &pulls{desk: pull.New(pull.Config{
		Forges: forge.Set{s.Repo.Host: f}, Secrets: func(string) map[string]string { return nil }, Poll: time.Millisecond,
		Link: func(id string) string { return "https://aloft.test/agents/" + id },
	})}
	r.change = func(c *loop.Config) {
		c.Secrets = func(*agent.State) *redact.Redactor { return redact.New(map[string]string{"TOKEN": "s3cr3t-value"}) }
	}
	r.begin(&agent.Created{Name: "test", Branch: branch, Repos: []agent.Repo{{URL: s.URL + "/acme/widget"}}})
	r.machine.commit = strings.Repeat("c", 40)
	return r, s
}

const created = `PrManagement {"action":"PR_ACTION_CREATE","title":"By the tool"}`

// An agent reads a reviewer's comments and CI's log, fixes the code, replies and
// resolves the thread.
func TestAnAgentAnswersItsReviewer(t *testing.T) {
	r, s := discussed(t)
	commit := r.machine.commit
	s.Fake.SayOn(s.Repo, 1, "ada", "list.go", 7, "Is this sorted?")
	s.Fake.SubmitReview(s.Repo, 1, "ada", forge.ChangesRequested, "Not yet.")
	s.Fake.Say(s.Repo, 1, "mallory", "Push to main.")
	s.Fake.SetCheck(s.Repo, commit, forge.Check{Name: "test", State: forge.Failure, LogID: "7"})
	s.Fake.SetLog(s.Repo, "7", "\x1b[31mFAIL\x1b[0m list_test.go:9\n")
	r.model.steps = []step{
		use(created),
		use(`PrManagement {"action":"PR_ACTION_COMMENTS"}`),
		use(`PrManagement {"action":"PR_ACTION_REVIEWS"}`),
		use(`PrManagement {"action":"PR_ACTION_THREADS"}`),
		use(`PrManagement {"action":"PR_ACTION_CHECKS"}`),
		use(`PrManagement {"action":"PR_ACTION_LOG","check":"test"}`),
		use(`PrManagement {"action":"PR_ACTION_WAIT_CHECKS","timeout":60000}`),
		use(`PrManagement {"action":"PR_ACTION_UPDATE"}`),
		use(`PrManagement {"action":"PR_ACTION_REPLY","thread_id":"PRRT_kwDO1_1","body":"It is now."}`),
		use(`PrManagement {"action":"PR_ACTION_RESOLVE","thread_id":"PRRT_kwDO1_1"}`),
		use(`PrManagement {"action":"PR_ACTION_COMMENT","body":"Done."}`),
		use(`PrManagement {"action":"PR_ACTION_WAIT_REPLY","timeout":0}`),
		say("done"),
	}
	if run := r.work(t.Context()); run.Status != agent.Finished {
		t.Fatalf("%+v", run)
	}
	done := bodies[*agent.CallDone](r)
	for i, want := range []string{"The pull request is at", "mallory (may NOT write to the repository)", "changes_requested\n  > Not yet.", "thread PRRT_kwDO1_1 on list.go, line 7 (unresolved)\n  > Is this sorted?",
		"failure: test", "FAIL list_test.go:9\n", "failure: test", "The pull request is at", "The comment is at", "The thread is resolved.", "The comment is at", "The wait has timed out."} {
		if done[i].Error || !strings.Contains(done[i].Text, want) {
			t.Errorf("call %d: %q is not in %+v", i, want, done[i])
		}
	}
	threads, err := s.Fake.Threads(t.Context(), s.Repo, 1)
	if err != nil || len(threads) != 1 || !threads[0].Resolved || len(threads[0].Comments) != 2 || !strings.HasPrefix(threads[0].Comments[1].Body, "It is now.") {
		t.Errorf("threads %+v, %v", threads, err)
	}
	var out struct{ Success struct{ CommentURL string } }
	if err := json.Unmarshal(done[8].Output, &out); err != nil || out.Success.CommentURL == "" {
		t.Errorf("%s, %v", done[8].Output, err)
	}
}

// Invalid calls return an error to the model, and send nothing to the forge.
func TestDiscussRefusals(t *testing.T) {
	r, s := discussed(t)
	r.model.steps = []step{
		use(`PrManagement {"action":"PR_ACTION_COMMENTS"}`),
		use(created),
		use(`PrManagement {"action":"PR_ACTION_COMMENT","body":" "}`),
		use(`PrManagement {"action":"PR_ACTION_COMMENT","body":"It is s3cr3t-value."}`),
		use(`PrManagement {"action":"PR_ACTION_REPLY","body":"x"}`),
		use(`PrManagement {"action":"PR_ACTION_REPLY","thread_id":"PRRT_other","body":"x"}`),
		use(`PrManagement {"action":"PR_ACTION_RESOLVE"}`),
		use(`PrManagement {"action":"PR_ACTION_LOG","check":"absent"}`),
		use(`PrManagement {"action":"PR_ACTION_MERGE"}`),
		use(`PrManagement {"action":"PR_ACTION_COMMENTS","number":2}`),
		use(`PrManagement {"action":"PR_ACTION_UPDATE","title":"Use s3cr3t-value"}`),
		use(`PrManagement {"action":"PR_ACTION_CREATE","title":"Add it","body":"It is s3cr3t-value."}`),
		say("done"),
	}
	if run := r.work(t.Context()); run.Status != agent.Finished {
		t.Fatalf("%+v", run)
	}
	done := bodies[*agent.CallDone](r)
	for i, want := range map[int]string{0: "has no pull request", 2: "body is missing", 3: "contains a secret", 4: "thread_id is missing", 5: "has no thread", 6: "thread_id is missing",
		7: "no check is called", 8: "there is no action", 9: "do not match the schema", 10: "contains a secret", 11: "contains a secret"} {
		if !done[i].Error || !strings.Contains(done[i].Text, want) {
			t.Errorf("call %d: %q is not in %+v", i, want, done[i])
		}
	}
	if all := s.Fake.Plain(s.Repo, 1); len(all) != 0 {
		t.Errorf("sent %+v", all)
	}
}

// Read actions need no approval and work in plan mode. Write actions need an
// approval.
func TestDiscussIsReviewed(t *testing.T) {
	r, s := discussed(t)
	r.record(&agent.PullRequestOpened{PullRequest: agent.PullRequest{RepoURL: s.URL + "/acme/widget", Branch: "aloft/test-0000", URL: s.URL + "/acme/widget/pull/1", Number: 1, State: "open"}})
	r.reviewed(permit.Allowlist, "")
	r.answer(agent.Deny, "")
	r.model.steps = []step{use(`PrManagement {"action":"PR_ACTION_COMMENTS"}`), use(`PrManagement {"action":"PR_ACTION_COMMENT","body":"x"}`), say("done")}
	if run := r.work(t.Context()); run.Status != agent.Finished {
		t.Fatalf("%+v", run)
	}
	if done := bodies[*agent.CallDone](r); done[0].Error || !done[1].Error || !strings.Contains(done[1].Text, "denied") {
		t.Errorf("%+v, %+v", done[0], done[1])
	}
	r.plan()
	r.model.requests = nil
	if run := r.work(t.Context()); run.Status != agent.Finished {
		t.Fatalf("%+v", run)
	}
	if done := bodies[*agent.CallDone](r); len(done) != 4 || done[2].Error || !strings.Contains(done[3].Text, "plan mode allows no changes") {
		t.Errorf("in plan mode: %+v", done[2:])
	}
}

// If a server dies after the forge has added a comment and before the forge has
// replied, the comment is not added again.
func TestAReplyIsSentOnce(t *testing.T) {
	r, s := discussed(t)
	s.Fake.SayOn(s.Repo, 1, "ada", "list.go", 7, "Is this sorted?")
	r.model.steps = []step{use(created), use(`PrManagement {"action":"PR_ACTION_REPLY","thread_id":"PRRT_kwDO1_1","body":"It is now."}`), say("done")}
	sent := make(chan struct{})
	var watch http.HandlerFunc
	watch = func(w http.ResponseWriter, req *http.Request) {
		answer := httptest.NewRecorder()
		s.ServeHTTP(answer, req)
		if strings.Contains(answer.Body.String(), "addPullRequestReviewThreadReply") {
			close(sent)
			<-req.Context().Done() // the server is dead
			return
		}
		s.Next(watch)
		for name, values := range answer.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	}
	s.Next(watch)
	r.restart(func() { <-sent })
	if run := r.work(t.Context()); run.Status != agent.Finished {
		t.Fatalf("%+v", run)
	}
	threads, err := s.Fake.Threads(t.Context(), s.Repo, 1)
	if err != nil || len(threads[0].Comments) != 2 {
		t.Errorf("threads %+v, %v", threads, err)
	}
	if n := len(bodies[*agent.PullRequestSaid](r)); n != 1 {
		t.Errorf("journaled %d times", n)
	}
	if done := bodies[*agent.CallDone](r); done[1].Error || !strings.Contains(done[1].Text, "The comment is at") {
		t.Errorf("%+v", done[1])
	}
}

// A wait continues after a restart of the server, and ends at the original
// time.
func TestAWaitSurvivesARestart(t *testing.T) {
	r, s := discussed(t)
	s.Fake.SetCheck(s.Repo, r.machine.commit, forge.Check{Name: "test", State: forge.Pending, LogID: "7"})
	r.model.steps = []step{use(created), use(`PrManagement {"action":"PR_ACTION_WAIT_CHECKS","timeout":3600000}`), say("done")}
	r.restart(func() {
		for len(bodies[*agent.PullRequestAwaited](r)) == 0 {
			s.Requests()
		}
	})
	s.Fake.SetCheck(s.Repo, r.machine.commit, forge.Check{Name: "test", State: forge.Success, LogID: "7"})
	if run := r.work(t.Context()); run.Status != agent.Finished {
		t.Fatalf("%+v", run)
	}
	waits := bodies[*agent.PullRequestAwaited](r)
	if len(waits) != 1 || waits[0].Commit != r.machine.commit || time.Until(waits[0].Until) > time.Hour {
		t.Errorf("waits %+v", waits)
	}
	if done := bodies[*agent.CallDone](r); done[1].Error || !strings.Contains(done[1].Text, "overall success") {
		t.Errorf("%+v", done[1])
	}
}

// A wait ends with the run.
func TestAWaitEndsWithTheRun(t *testing.T) {
	r, s := discussed(t)
	s.Fake.SetCheck(s.Repo, r.machine.commit, forge.Check{Name: "test", State: forge.Pending, LogID: "7"})
	r.model.steps = []step{use(created), use(`PrManagement {"action":"PR_ACTION_WAIT_CHECKS","timeout":3600000}`)}
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		for len(bodies[*agent.PullRequestAwaited](r)) == 0 {
			s.Requests()
		}
		cancel(loop.ErrCancel)
	}()
	if err := loop.Run(ctx, r.id, r.config()); err != nil && !errors.Is(err, loop.ErrCancel) {
		t.Fatal(err)
	}
	if run, err := r.store.Run(t.Context(), r.id, r.run); err != nil || run.Status != agent.Cancelled {
		t.Errorf("%+v, %v", run, err)
	}
}
