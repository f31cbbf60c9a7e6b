package agents

import (
	"context"
	"slices"
	"strings"
	"testing"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/store"
	"aloft/internal/fault"
)

// reviewable is a forge that has one pull request.
type reviewable struct {
	PullRequests
	err   error
	asked []string
}

const (
	reviewedURL = "https://git.example.com/o/r/pull/7"
	baseCommit  = "1111111111111111111111111111111111111111"
)

func (r *reviewable) RepoOf(_, prURL string) (string, error) {
	if prURL != reviewedURL {
		return "", fault.Invalid("is not a pull request")
	}
	return "https://git.example.com/o/r", nil
}

func (r *reviewable) Reviewable(_ context.Context, repoURL, prURL string) (*agent.ReviewTask, string, error) {
	r.asked = append(r.asked, prURL)
	return &agent.ReviewTask{Patch: "diff", PullRequest: &agent.ReviewedPull{URL: prURL, RepoURL: repoURL, Number: 7}}, baseCommit, r.err
}

// An agent that reviews a pull request starts at the merge base. The server
// asks the forge only for users who may run agents on the repository.
func TestReviewOfAPullRequest(t *testing.T) {
	b := newBench(t)
	forge := &reviewable{}
	b.PullRequests = forge
	url := reviewedURL
	ask := func(change func(*Request)) (Result, error) {
		q := b.request("Review the change.")
		q.Review = &Review{PullRequest: &url}
		if change != nil {
			change(&q)
		}
		return b.Create(t.Context(), q)
	}
	made, err := ask(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := agent.Fold(made.Agent.ID, made.First)
	if got := s.Agent.Repos; len(got) != 1 || got[0].URL != "https://git.example.com/o/r" || got[0].StartingRef != baseCommit || got[0].PullRequest != "" {
		t.Errorf("repositories %+v", got)
	}
	if s.Review == nil || s.Review.PullRequest.URL != reviewedURL || s.Agent.Env.Preset != agent.Reviewer || !slices.Equal(b.woken, []string{made.Agent.ID}) {
		t.Errorf("review %+v, environment %+v", s.Review, s.Agent.Env)
	}
	patch, other := "x", "https://git.example.com/o/r"
	for name, c := range map[string]struct {
		change func(*Request)
		field  string
	}{
		"BothChanges":   {func(q *Request) { q.Review.Patch = &patch }, "review"},
		"NoChange":      {func(q *Request) { q.Review.PullRequest = nil }, "review"},
		"WithRepos":     {func(q *Request) { q.Repos = []Repository{{URL: other}} }, "repos"},
		"NoPullRequest": {func(q *Request) { q.Review.PullRequest = &other }, "review.pullRequest"},
		"OpensOne":      {func(q *Request) { q.PullRequest.Auto = true }, "review"},
	} {
		if _, err := ask(c.change); !fault.Is(err, fault.KindInvalid) || fault.Of(err).Field != c.field {
			t.Errorf("%s: %v of %q", name, err, fault.Of(err).Field)
		}
	}
	forge.err = fault.Conflict("it is closed")
	if _, err := ask(nil); !fault.Is(err, fault.KindConflict) || fault.Of(err).Field != "review.pullRequest" {
		t.Errorf("of a closed one: %v", err)
	}
	forge.err, forge.asked = nil, nil
	if err := store.SetAccess(t.Context(), b.store, account.Access{Limited: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := ask(nil); !fault.Is(err, fault.KindDenied) || len(forge.asked) > 0 {
		t.Errorf("by somebody who may not: %v, and the forge was asked for %q", err, forge.asked)
	}
	b.PullRequests = nil
	if _, err := ask(nil); fault.Of(err).Code != "integration_not_connected" || !strings.HasPrefix(fault.Of(err).Field, "review") {
		t.Errorf("without a forge: %v", err)
	}
}
