package mention

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"aloft/internal/control/forge"
	"aloft/internal/control/forge/fake"
	"aloft/internal/control/store"
)

var errKilled = errors.New("the server was killed")

// fuse simulates a server that is killed before or after one of its effects:
// all later effects are dropped.
type fuse struct{ left int }

// burn counts one point at which the server may die. It returns an error if the
// server is dead.
func (f *fuse) burn() error {
	if f.left--; f.left < 0 {
		return errKilled
	}
	return nil
}

// run runs an effect between two points at which the server may die.
func (f *fuse) run(effect func() error) error {
	if err := f.burn(); err != nil {
		return err
	}
	err := effect()
	if dead := f.burn(); dead != nil {
		return dead
	}
	return err
}

type mortalForge struct {
	*fake.Forge
	fuse *fuse
}

func (m mortalForge) CommentIssue(ctx context.Context, r forge.Repo, n int, body string) (c forge.Comment, err error) {
	err = m.fuse.run(func() (err error) { c, err = m.Forge.CommentIssue(ctx, r, n, body); return err })
	return c, err
}

func (m mortalForge) EditComment(ctx context.Context, r forge.Repo, on forge.Topic, id, body string) error {
	return m.fuse.run(func() error { return m.Forge.EditComment(ctx, r, on, id, body) })
}

type mortalAgents struct {
	*agents
	fuse *fuse
}

func (m mortalAgents) Start(ctx context.Context, s Start) error {
	return m.fuse.run(func() error { return m.agents.Start(ctx, s) })
}

func (m mortalAgents) FollowUp(ctx context.Context, agentID, runID, prompt, model string) error {
	return m.fuse.run(func() error { return m.agents.FollowUp(ctx, agentID, runID, prompt, model) })
}

func (m mortalAgents) Review(ctx context.Context, s Start) error {
	return m.fuse.run(func() error { return m.agents.Review(ctx, s) })
}

type mortalStore struct {
	Store
	fuse *fuse
}

func (m mortalStore) TellTopic(ctx context.Context, t store.Topic, due time.Time) error {
	return m.fuse.run(func() error { return m.Store.TellTopic(ctx, t, due) })
}

func (m mortalStore) PutTopic(ctx context.Context, owner string, t store.Topic) error {
	return m.fuse.run(func() error { return m.Store.PutTopic(ctx, owner, t) })
}

// The server dies before and after every one of its effects, and restarts.
// There must be one agent, one run per mention, and one comment.
func TestDeathAtEveryStep(t *testing.T) {
	done := false
	for at := 0; !done; at++ {
		if at > 200 {
			t.Fatal("it never finishes")
		}
		w := newWorld(t)
		n := w.forge.OpenIssue(w.repo, "eve", "x", "y")
		w.forge.SayAtIssue(w.repo, n, "ada", "@aloft first")
		w.forge.SayAtIssue(w.repo, n, "ada", "@aloft second [speed=1]")
		w.forge.SayAtIssue(w.repo, n, "ada", "@aloft third")
		f := &fuse{left: at}
		w.desk = w.newDesk(mortalStore{w.store, f}, mortalAgents{w.agents, f}, mortalForge{w.forge, f})
		if w.deliver(n, true, "ada", "@aloft first") == nil {
			for f.left >= 0 {
				all, err := w.store.ClaimTopics(t.Context(), "a", time.Hour, 10)
				if err != nil {
					t.Fatal(err)
				}
				if done = len(all) == 0; done {
					break
				}
				for _, topic := range all {
					w.desk.attempt(t.Context(), topic)
				}
			}
		}
		// The server restarts. The event is delivered again, because it was not
		// acknowledged.
		w.desk = w.newDesk(w.store, w.agents, w.forge)
		if err := w.store.ReleaseTopics(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if err := w.deliver(n, true, "ada", "@aloft first"); err != nil {
			t.Fatal(err)
		}
		w.settle()
		if len(w.agents.started) != 1 || len(w.agents.runs) != 1 || !strings.HasPrefix(w.agents.prompts[0], "first\n") || !strings.HasPrefix(w.agents.prompts[1], "third\n") {
			t.Fatalf("killed at %d: prompts %q", at, w.agents.prompts)
		}
		if got := w.shown(n, true); !strings.HasPrefix(got, "**Working**") {
			t.Fatalf("killed at %d: shown %q", at, got)
		}
	}
}
