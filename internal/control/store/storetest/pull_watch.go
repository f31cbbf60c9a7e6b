package storetest

import (
	"testing"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/store"
)

var pullWatchTests = []test{
	{"OpenedPullRequestIsWatched", testWatched},
	{"WatchIsClaimedOnce", testWatchClaim},
	{"NewsDuringAReadIsKept", testWatchNews},
}

const (
	watchedRepo = "https://Git.example.com/Acme/widget.git"
	watchedURL  = "https://git.example.com/acme/widget/pulls/7"
)

func opened() *agent.PullRequestOpened {
	return &agent.PullRequestOpened{By: agent.PullByRun, Made: true, PullRequest: agent.PullRequest{
		RepoURL: watchedRepo, Branch: "aloft/fix", Base: "main", URL: watchedURL, Number: 7, State: "open",
	}}
}

// newWatched creates an agent with an open pull request.
func newWatched(t *testing.T, s Store, pullRequest string) (agentID string) {
	t.Helper()
	agentID = agent.NewID()
	mustAppend(t, s, store.Append{AgentID: agentID, IfHead: ptr(0), Events: []agent.Event{
		{Body: &agent.Created{Env: agent.Env{Type: "cloud"}, Repos: []agent.Repo{{URL: watchedRepo, PullRequest: pullRequest}}}},
		prompt(agent.NewRunID()),
		{Body: opened()},
	}})
	return agentID
}

func watches(t *testing.T, s Store, agentID string) []store.PullWatch {
	t.Helper()
	all, err := s.PullWatchesOf(t.Context(), agentID)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func claimPulls(t *testing.T, s Store, owner string, again time.Duration) []store.PullWatch {
	t.Helper()
	all, err := s.ClaimPulls(t.Context(), owner, again, 10)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func testWatched(t *testing.T, s Store) {
	id := newWatched(t, s, "")
	mustAppend(t, s, store.Append{AgentID: id, Events: []agent.Event{{Body: opened()}}}) // the next run updates the pull request
	of, err := s.PullsOf(t.Context(), "git.example.com/acme/widget")
	if err != nil || len(of) != 1 {
		t.Fatalf("watched: %+v, %v", of, err)
	}
	if w := of[0]; w.AgentID != id || w.URL != watchedURL || w.RepoURL != watchedRepo || w.Branch != "aloft/fix" || w.Number != 7 || w.DueAt.IsZero() {
		t.Errorf("watched: %+v", w)
	}
	if other := newWatched(t, s, watchedURL); len(watches(t, s, other)) != 0 {
		t.Error("an agent that was started on somebody's pull request watches it")
	}
	for _, step := range []struct {
		state string
		want  int
	}{{"open", 1}, {"closed", 0}, {"open", 1}, {"merged", 0}} {
		mustAppend(t, s, store.Append{AgentID: id, Events: []agent.Event{{Body: &agent.PullRequestSeen{URL: watchedURL, State: step.state}}}})
		if got := watches(t, s, id); len(got) != step.want {
			t.Errorf("when it is %s: %+v", step.state, got)
		}
	}
	id = newWatched(t, s, "")
	if w := claimPulls(t, s, "a", time.Hour); len(w) != 1 {
		t.Fatalf("claimed %+v", w)
	}
	mustAppend(t, s, store.Append{AgentID: id, Events: []agent.Event{{Body: opened()}}}) // an update keeps the claim
	if w := claimPulls(t, s, "b", time.Hour); len(w) != 0 {
		t.Errorf("an update of the pull request ended the claim: %+v", w)
	}
	if err := s.DeleteAgent(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if got := watches(t, s, id); len(got) != 0 {
		t.Errorf("after its agent was deleted: %+v", got)
	}
}

func testWatchClaim(t *testing.T, s Store) {
	id := newWatched(t, s, "")
	first := claimPulls(t, s, "a", time.Hour)
	if len(first) != 1 || first[0].AgentID != id || len(claimPulls(t, s, "b", time.Hour)) != 0 {
		t.Fatalf("claimed %+v, or twice", first)
	}
	if err := s.ReleasePulls(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if again := claimPulls(t, s, "b", 0); len(again) != 1 {
		t.Fatalf("released: %+v", again)
	}
	again := claimPulls(t, s, "c", time.Hour)
	if len(again) != 1 {
		t.Fatalf("after the claim has expired: %+v", again)
	}
	w := again[0]
	w.DueAt, w.Seen, w.Attempts, w.Problem = time.Now().Add(time.Hour).Truncate(time.Microsecond), "hash", 2, "unreachable"
	if err := s.PutPull(t.Context(), "b", w); err != nil { // b's claim has ended
		t.Fatal(err)
	}
	if got := watches(t, s, id); got[0].Seen != "" {
		t.Errorf("recorded without a claim: %+v", got)
	}
	if err := s.PutPull(t.Context(), "c", w); err != nil {
		t.Fatal(err)
	}
	if got := watches(t, s, id); got[0].Seen != "hash" || got[0].Attempts != 2 || got[0].Problem != "unreachable" || !got[0].DueAt.Equal(w.DueAt) {
		t.Errorf("recorded %+v, want %+v", got[0], w)
	}
	if got := claimPulls(t, s, "d", time.Hour); len(got) != 0 {
		t.Errorf("due too early: %+v", got)
	}
}

func testWatchNews(t *testing.T, s Store) {
	id := newWatched(t, s, "")
	w := claimPulls(t, s, "a", time.Hour)[0]
	soon, late := time.Now().Add(time.Minute).Truncate(time.Microsecond), time.Now().Add(2*time.Hour)
	if err := s.TellPull(t.Context(), id, watchedURL, soon); err != nil {
		t.Fatal(err)
	}
	w.DueAt = late
	if err := s.PutPull(t.Context(), "a", w); err != nil {
		t.Fatal(err)
	}
	if got := watches(t, s, id); !got[0].DueAt.Equal(soon) {
		t.Errorf("due at %v, want %v", got[0].DueAt, soon)
	}
	if err := s.TellPull(t.Context(), id, watchedURL, late); err != nil { // a later time does not defer it
		t.Fatal(err)
	}
	if got := watches(t, s, id); !got[0].DueAt.Equal(soon) {
		t.Errorf("after a second event it is due at %v, want %v", got[0].DueAt, soon)
	}
}
