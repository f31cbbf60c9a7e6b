package autoreview_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"aloft/internal/control/autoreview"
	"aloft/internal/control/forge"
	"aloft/internal/control/forge/fake"
	"aloft/internal/control/inbound"
	"aloft/internal/fault"
)

// next is the handler that the desk calls.
type next struct {
	got []inbound.Change
	err error
}

func (n *next) Changed(_ context.Context, c inbound.Change) error {
	n.got = append(n.got, c)
	return n.err
}

// world is a desk with a repository at a fake forge.
type world struct {
	forge   *fake.Forge
	repo    forge.Repo
	next    *next
	started map[string]string // URLs of pull requests by agent id
	refuse  error
	desk    *autoreview.Desk
}

func newWorld() *world {
	f := fake.New("git.test")
	w := &world{forge: f, repo: f.Add("o/r", "main"), next: &next{err: inbound.Ignored("no agent has it")}, started: map[string]string{}}
	w.desk = autoreview.New(autoreview.Config{
		Forges: forge.Set{"git.test": f}, Repos: []forge.Repo{w.repo}, Next: w.next,
		ID: func(words ...string) string { return strings.Join(words, " ") },
		Start: func(_ context.Context, id, url string) error {
			if w.started[id] != "" {
				return fault.Conflict("it exists").Named("agent_id_conflict")
			}
			if w.refuse == nil {
				w.started[id] = url
			}
			return w.refuse
		},
	})
	return w
}

// The desk reviews each commit of an open pull request once.
func TestEachCommitIsReviewedOnce(t *testing.T) {
	w := newWorld()
	w.forge.Push(w.repo, "b")
	p, err := w.forge.Open(t.Context(), forge.NewPullRequest{Repo: w.repo, Head: "b", Base: "main", Title: "x", Draft: true})
	if err != nil {
		t.Fatal(err)
	}
	change := inbound.Change{Repo: w.repo, Number: p.Number, Kind: inbound.PullRequest}
	ignored := func(c inbound.Change, want string) {
		t.Helper()
		err := w.desk.Changed(t.Context(), c)
		if why, ok := errors.AsType[inbound.Ignored](err); !ok || !strings.Contains(string(why), want) || !strings.Contains(string(why), "no agent has it") {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	ignored(change, "is a draft")
	p, err = w.forge.Open(t.Context(), forge.NewPullRequest{Repo: w.repo, Head: func() string { w.forge.Push(w.repo, "c"); return "c" }(), Base: "main", Title: "y"})
	if err != nil {
		t.Fatal(err)
	}
	change.Number = p.Number
	if err := w.desk.Changed(t.Context(), change); err != nil || len(w.started) != 1 {
		t.Fatalf("started %v, %v", w.started, err)
	}
	ignored(change, "already been reviewed")
	w.forge.Push(w.repo, "c")
	if err := w.desk.Changed(t.Context(), change); err != nil || len(w.started) != 2 {
		t.Fatalf("started %v, %v", w.started, err)
	}
	for id, url := range w.started {
		if url != p.URL || !strings.HasPrefix(id, "autoreview git.test/o/r 2 ") {
			t.Errorf("started %q for %q", id, url)
		}
	}
	if _, err := w.forge.Update(t.Context(), w.repo, p.Number, forge.Change{State: new(forge.Closed)}); err != nil {
		t.Fatal(err)
	}
	ignored(change, "is closed")
	ignored(inbound.Change{Repo: w.repo, Number: 99, Kind: inbound.PullRequest}, "does not exist")
	if len(w.next.got) != 6 {
		t.Errorf("the next handler got %d changes", len(w.next.got))
	}
	// The desk only forwards other kinds of changes, and changes of other
	// repositories.
	w.forge.Calls()
	for _, c := range []inbound.Change{{Repo: w.repo, Number: p.Number, Kind: inbound.Comment}, {Repo: forge.Repo{Host: "git.test", Path: "o/x"}, Number: 1, Kind: inbound.PullRequest}} {
		if err := w.desk.Changed(t.Context(), c); !errors.Is(err, w.next.err) || len(w.forge.Calls()) != 0 {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// The desk reviews pull requests of people without write access only if the
// configuration says so.
func TestAuthors(t *testing.T) {
	w := newWorld()
	w.forge.Push(w.repo, "b")
	p, err := w.forge.Open(t.Context(), forge.NewPullRequest{Repo: w.repo, Head: "b", Base: "main", Title: "x"})
	if err != nil {
		t.Fatal(err)
	}
	w.desk.Forges = forge.Set{"git.test": strangers{w.forge}}
	change := inbound.Change{Repo: w.repo, Number: p.Number, Kind: inbound.PullRequest}
	if why, ok := errors.AsType[inbound.Ignored](w.desk.Changed(t.Context(), change)); !ok || !strings.Contains(string(why), "may not write to o/r") || len(w.started) != 0 {
		t.Errorf("%q, started %v", why, w.started)
	}
	w.desk.Anyone = true
	if err := w.desk.Changed(t.Context(), change); err != nil || len(w.started) != 1 {
		t.Errorf("%v, started %v", err, w.started)
	}
}

// strangers is a forge on which nobody may write.
type strangers struct{ *fake.Forge }

func (strangers) MayWrite(context.Context, forge.Repo, string) (bool, error) { return false, nil }

// The desk returns errors that may be temporary, so that the event is handled again.
// Other errors become the reason why the event is ignored.
func TestErrors(t *testing.T) {
	w := newWorld()
	w.forge.Push(w.repo, "b")
	p, err := w.forge.Open(t.Context(), forge.NewPullRequest{Repo: w.repo, Head: "b", Base: "main", Title: "x"})
	if err != nil {
		t.Fatal(err)
	}
	change := inbound.Change{Repo: w.repo, Number: p.Number, Kind: inbound.PullRequest}
	for _, c := range []struct {
		err   error
		again bool
	}{
		{fault.Unavailable("down"), true}, {fault.Exhausted("too many agents"), true}, {errors.New("the database is away"), true},
		{fault.Denied("in privacy mode, the server posts no reviews"), false}, {fault.Conflict("changes nothing"), false},
	} {
		w.refuse = c.err
		err := w.desk.Changed(t.Context(), change)
		if _, ignored := errors.AsType[inbound.Ignored](err); err == nil || ignored == c.again {
			t.Errorf("%v: %v", c.err, err)
		}
	}
	w.refuse = nil
	w.forge.Fail(fault.Unavailable("down").Named(forge.CodeUnreachable))
	if err := w.desk.Changed(t.Context(), change); !forge.Retryable(err) {
		t.Errorf("got %v", err)
	}
	w.next.err = errors.New("the database is away")
	if err := w.desk.Changed(t.Context(), change); !errors.Is(err, w.next.err) || len(w.started) != 1 {
		t.Errorf("got %v", err)
	}
	w.next.err = nil
	if err := w.desk.Changed(t.Context(), change); err != nil { // the commit is already reviewed, and the next handler has succeeded
		t.Errorf("got %v", err)
	}
}
