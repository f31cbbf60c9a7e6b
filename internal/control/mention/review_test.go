package mention

import (
	"strings"
	"testing"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/forge"
	"aloft/internal/control/store"
	"aloft/internal/conversation"
	"aloft/internal/fault"
)

// pullOf opens a pull request, which an agent follows if followed is set.
func (w *world) pullOf(followed bool) forge.PullRequest {
	w.t.Helper()
	w.forge.Push(w.repo, "b")
	p, err := w.forge.Open(w.t.Context(), forge.NewPullRequest{Repo: w.repo, Head: "b", Base: "main", Title: "Mine"})
	if err != nil {
		w.t.Fatal(err)
	}
	if followed {
		id, run, zero := agent.NewID(), agent.NewRunID(), int64(0)
		if _, err := w.store.Append(w.t.Context(), store.Append{AgentID: id, IfHead: &zero, Events: []agent.Event{
			{Body: &agent.Created{Repos: []agent.Repo{{URL: "https://git.test/o/r"}}}}, {RunID: run, Body: &agent.RunCreated{Prompt: conversation.Text(conversation.User, "x")}},
			{RunID: run, Body: &agent.PullRequestOpened{By: agent.PullByRun, Made: true, PullRequest: agent.PullRequest{RepoURL: "https://git.test/o/r", Branch: "b", URL: p.URL, Number: int64(p.Number), State: "open"}}},
		}}); err != nil {
			w.t.Fatal(err)
		}
	}
	return p
}

// A mention with the word review starts a separate agent, even on a pull
// request that another agent follows. The follower gets the other mentions.
func TestReviewByMention(t *testing.T) {
	for name, followed := range map[string]bool{"Followed": true, "Others": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			p := w.pullOf(followed)
			say := func(author, text string) {
				t.Helper()
				w.forge.Say(w.repo, p.Number, author, text)
				_ = w.deliver(p.Number, false, author, text) // a stranger's request is refused
				w.settle()
			}
			say("ada", "@aloft review the parser [model=big]\nIt has "+secret+".")
			say("eve", "@aloft review")
			if len(w.agents.reviews) != 1 || len(w.agents.started) != 0 {
				t.Fatalf("reviews %+v, started %+v", w.agents.reviews, w.agents.started)
			}
			got := w.agents.reviews[0]
			if got.PullRequest != p.URL || got.UserID != 7 || got.Model != "big" || !strings.HasPrefix(got.Prompt, "Review the change.\n") || !strings.Contains(got.Prompt, "> It has [REDACTED].") {
				t.Errorf("review %+v", got)
			}
			say("ada", "@aloft rebase it")
			if want := 1; followed != (len(w.agents.started) == 0) || !followed && len(w.agents.started) != want || followed != (len(w.passed) == 1) {
				t.Errorf("started %+v, passed on %+v", w.agents.started, w.passed)
			}
			say("ada", "@aloft Review: again")
			if len(w.agents.reviews) != 2 || w.agents.reviews[1].AgentID == got.AgentID || len(w.agents.runs) != 0 {
				t.Errorf("reviews %+v, runs %q", w.agents.reviews, w.agents.runs)
			}
			// Polling finds nothing new.
			of := &polled{repo: w.repo, since: time.Now().Add(-oldest), seen: map[forge.Topic]time.Time{}}
			w.poll(of)
			if len(w.agents.reviews) != 2 {
				t.Errorf("reviews %+v", w.agents.reviews)
			}
			w.forge.Say(w.repo, p.Number, "ada", "@aloft review once more")
			w.poll(of)
			if len(w.agents.reviews) != 3 {
				t.Errorf("polling has started %d reviews", len(w.agents.reviews))
			}
		})
	}
}

// If a review cannot be started, the desk replies with the reason.
func TestRefusedReview(t *testing.T) {
	w := newWorld(t)
	p := w.pullOf(false)
	w.agents.refuse = fault.Denied("in privacy mode, the server posts no reviews").Hint("use the CLI")
	for _, author := range []string{"ada", "bo"} {
		w.forge.Say(w.repo, p.Number, author, "@aloft review")
		if err := w.deliver(p.Number, false, author, "@aloft review"); err != nil {
			t.Fatal(err)
		}
		w.settle()
		want := map[string]string{"ada": "posts no reviews: use the CLI.", "bo": "there is no account for bo"}[author]
		if got := w.shown(p.Number, false); !strings.Contains(got, want) {
			t.Errorf("shown %q, want %q", got, want)
		}
	}
}

// The server dies before and after every one of its effects. There must be one
// review.
func TestReviewDiesAtEveryStep(t *testing.T) {
	for at := 0; at < 12; at++ {
		w := newWorld(t)
		p := w.pullOf(true)
		w.forge.Say(w.repo, p.Number, "ada", "@aloft review")
		f := &fuse{left: at}
		w.desk = w.newDesk(mortalStore{w.store, f}, mortalAgents{w.agents, f}, mortalForge{w.forge, f})
		_ = w.deliver(p.Number, false, "ada", "@aloft review") // fails if the server is dead
		for range 5 {
			all, err := w.store.ClaimTopics(t.Context(), "a", time.Hour, 10)
			if err != nil {
				t.Fatal(err)
			}
			for _, topic := range all {
				w.desk.attempt(t.Context(), topic)
			}
		}
		w.desk = w.newDesk(w.store, w.agents, w.forge)
		if err := w.store.ReleaseTopics(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if err := w.deliver(p.Number, false, "ada", "@aloft review"); err != nil {
			t.Fatal(err)
		}
		w.settle()
		if len(w.agents.reviews) != 1 {
			t.Fatalf("killed at %d: %d reviews", at, len(w.agents.reviews))
		}
	}
}

func TestAsksReview(t *testing.T) {
	for text, want := range map[string]bool{
		"@aloft review": true, "Please, @Aloft: Review!": true, "@aloft review [model=none] it": true, "@aloft do review it": true,
		"@aloft": false, "@aloft reviewer": false, "@aloft fix the review": false, "review": false, "> @aloft review": false,
	} {
		if got := AsksReview(text, "aloft"); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	if q, err := parse(" review it", nil, true); err != nil || q.review || q.task != "review it" {
		t.Errorf("on an issue: %+v, %v", q, err)
	}
}
