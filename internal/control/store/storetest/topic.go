package storetest

import (
	"errors"
	"testing"
	"time"

	"aloft/internal/control/store"
)

var topicTests = []test{
	{"ToldTopicIsAddedOnce", testTopic},
	{"TopicIsClaimedOnce", testTopicClaim},
	{"NewsDuringAnAttemptIsKept", testTopicNews},
}

var anIssue = store.Topic{Repo: "git.example.com/acme/widget", Number: 7, Issue: true, RepoURL: "https://git.example.com/acme/widget"}

func tellTopic(t *testing.T, s Store, of store.Topic, due time.Time) {
	t.Helper()
	if err := s.TellTopic(t.Context(), of, due); err != nil {
		t.Fatal(err)
	}
}

func topic(t *testing.T, s Store, of store.Topic) store.Topic {
	t.Helper()
	got, err := s.Topic(t.Context(), of.Repo, of.Number, of.Issue)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func claimTopics(t *testing.T, s Store, owner string, again time.Duration) []store.Topic {
	t.Helper()
	all, err := s.ClaimTopics(t.Context(), owner, again, 10)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func testTopic(t *testing.T, s Store) {
	if _, err := s.Topic(t.Context(), anIssue.Repo, 7, true); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("before: %v", err)
	}
	soon := time.Now().Add(time.Minute).Truncate(time.Microsecond)
	tellTopic(t, s, anIssue, soon)
	tellTopic(t, s, anIssue, soon.Add(time.Hour)) // a later event does not delay it
	pull := anIssue
	pull.Issue = false // another topic with the same number, as at GitLab
	tellTopic(t, s, pull, soon)
	if got := topic(t, s, anIssue); got.News != 2 || !got.DueAt.Equal(soon) || got.RepoURL != anIssue.RepoURL || got.AgentID != "" || time.Since(got.CreatedAt) > time.Minute {
		t.Errorf("topic %+v", got)
	}
	if got := topic(t, s, pull); got.News != 1 || got.Issue {
		t.Errorf("topic %+v", got)
	}
}

func testTopicClaim(t *testing.T, s Store) {
	tellTopic(t, s, anIssue, time.Now())
	first := claimTopics(t, s, "a", time.Hour)
	if len(first) != 1 || len(claimTopics(t, s, "b", time.Hour)) != 0 {
		t.Fatalf("claimed %+v, or twice", first)
	}
	if err := s.ReleaseTopics(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if again := claimTopics(t, s, "b", 0); len(again) != 1 {
		t.Fatalf("released: %+v", again)
	}
	again := claimTopics(t, s, "c", time.Hour)
	if len(again) != 1 {
		t.Fatalf("after the claim has expired: %+v", again)
	}
	w := again[0]
	w.DueAt, w.AgentID, w.CommentID, w.Handled, w.Answer, w.Shown = time.Now().UTC().Add(time.Hour).Truncate(time.Microsecond), "bc-1", "12", "1\n2", "no", "hash"
	w.Read, w.Attempts, w.Problem = w.News, 2, "unreachable"
	if err := s.PutTopic(t.Context(), "b", w); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("recorded without a claim: %v", err)
	}
	if err := s.PutTopic(t.Context(), "c", w); err != nil {
		t.Fatal(err)
	}
	if got := topic(t, s, anIssue); got != w {
		t.Errorf("recorded %+v\nwant     %+v", got, w)
	}
	if got := claimTopics(t, s, "d", time.Hour); len(got) != 0 {
		t.Errorf("due too early: %+v", got)
	}
}

func testTopicNews(t *testing.T, s Store) {
	tellTopic(t, s, anIssue, time.Now())
	w := claimTopics(t, s, "a", time.Hour)[0]
	soon := time.Now().Add(time.Minute).Truncate(time.Microsecond)
	tellTopic(t, s, anIssue, soon)
	w.DueAt, w.Read = time.Now().Add(2*time.Hour), w.News
	if err := s.PutTopic(t.Context(), "a", w); err != nil {
		t.Fatal(err)
	}
	if got := topic(t, s, anIssue); !got.DueAt.Equal(soon) || got.News == got.Read {
		t.Errorf("after news: %+v, want it due at %v", got, soon)
	}
}
