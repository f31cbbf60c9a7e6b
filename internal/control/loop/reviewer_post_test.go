package loop_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/forge"
	"aloft/internal/control/forge/fake"
	"aloft/internal/control/loop"
	"aloft/internal/control/pull"
	"aloft/internal/control/store"
	"aloft/internal/fault"
)

// pullReviewer returns a rig with a new agent that reviews a pull request. An
// earlier review has left an open thread.
func (r *rig) pullReviewer(of agent.ReviewedPull) *rig {
	r.t.Helper()
	other := &rig{t: r.t, store: r.store, id: agent.NewID(), run: agent.NewRunID(), machine: r.machine, info: r.info}
	other.begin(&agent.Created{
		Name: "review", Branch: "aloft/review-0000", Repos: []agent.Repo{{URL: of.RepoURL}},
		Env: agent.Env{Preset: agent.Reviewer}, Review: &agent.ReviewTask{Patch: reviewedChange, PullRequest: &of},
	})
	return other
}

const reportOne = `ReportFindings {"findings":[{"path":"list.go","line":11,"severity":"FINDING_SEVERITY_HIGH","title":"Index out of range","body":"It always panics."}]}`

// The review is journaled and then posted, once per run. A later run posts only if
// it has new findings.
func TestReviewerPosts(t *testing.T) {
	r := newRig(t, true).pullReviewer(agent.ReviewedPull{URL: "https://git.test/o/r/pull/1", RepoURL: "https://git.test/o/r", Number: 1})
	p := &pulls{}
	r.pulls = p
	r.model.steps = []step{use(reportOne), say("It panics.")}
	if run := r.work(t.Context()); run.Status != agent.Finished || run.Result != "It panics." {
		t.Fatalf("run %+v", run)
	}
	if len(p.posted) != 1 || p.posted[0].Body != "It panics., complete true" || len(p.posted[0].Comments) != 1 || len(bodies[*agent.ReviewPosted](r)) != 1 {
		t.Fatalf("posted %+v", p.posted)
	}
	r.follow("Are you sure?")
	r.model.steps = append(r.model.steps, say("Yes."))
	r.work(t.Context())
	if len(p.posted) != 1 {
		t.Errorf("posted without news: %+v", p.posted[1:])
	}
	r.follow("What else?")
	r.model.steps = append(r.model.steps, use(strings.Replace(reportOne, "Index", "Another", 1)), say("One more."))
	r.work(t.Context())
	if len(p.posted) != 2 || len(p.posted[1].Comments) != 1 || p.posted[1].Comments[0].FindingID != "F-2" {
		t.Errorf("posted %+v", p.posted[1:])
	}
}

// After a new push, only findings on lines that have changed since the last review
// are accepted. An earlier finding can be marked as fixed if its file has changed.
func TestReviewerOfANewPush(t *testing.T) {
	r := newRig(t, true).pullReviewer(agent.ReviewedPull{URL: "https://git.test/o/r/pull/1", RepoURL: "https://git.test/o/r", Number: 1, Since: strings.Repeat("1", 40),
		Changed: []agent.ChangedLines{{Path: "list.go"}, {Path: "list.go", First: 11, Last: 11}},
		Earlier: []agent.EarlierFinding{{ID: "E-1", ThreadID: "7", Path: "list.go", Line: 11, Title: "High: \n It is slow"}, {ID: "E-2", Path: "other.go"}}})
	r.pulls = &pulls{}
	r.model.steps = []step{
		use(strings.Replace(reportOne, `"line":11`, `"line":12`, 1)),
		use(strings.TrimSuffix(reportOne, "}") + `,"fixed":["E-1","E-1","E-2","E-3"]}`),
		use(strings.Replace(strings.Replace(reportOne, "Index", "Another", 1), `"line":11`, `"line":11,"old_side":true`, 1)),
		use(`ReportFindings {"fixed":["E-1"]}`), say("Good."),
	}
	r.work(t.Context())
	done := bodies[*agent.CallDone](r)
	for i, want := range []string{
		"the lines 12-12 of \"list.go\" have not changed since the last review, at 111111111111",
		"Accepted as fixed: E-1\nAccepted as F-1: list.go:11\nNot accepted:\nfixed[1]: E-1 is reported as fixed already\nfixed[2]: the file of E-2 has not changed since the last review\nfixed[3]: there is no open earlier finding \"E-3\"\n",
		"Accepted as F-2: list.go:11", "E-1 is reported as fixed already",
	} {
		if len(done) != 4 || !strings.Contains(done[i].Text, want) {
			t.Fatalf("result %d is %+v, want %q", i, done, want)
		}
	}
	if s := agent.Fold(r.id, r.events()); len(s.Findings) != 2 || len(s.Fixed) != 1 {
		t.Errorf("the state is %+v", s.Reviewing)
	}
	if system := r.model.requests[0].System; !strings.Contains(system, `- E-1, in "list.go", line 11: "High: \n It is slow"`) || !strings.Contains(system, "You do not have that commit.") {
		t.Errorf("the model is told %q", system)
	}
}

// If the forge fails, the run still finishes, and the next run posts the
// review.
func TestReviewThatIsNotPosted(t *testing.T) {
	r := newRig(t, true).pullReviewer(agent.ReviewedPull{URL: "https://git.test/o/r/pull/1", RepoURL: "https://git.test/o/r", Number: 1})
	p := &pulls{before: func() error { return fault.Unavailable("the forge is down").Named("forge_unreachable") }}
	r.pulls = p
	r.model.steps = []step{use(reportOne), say("It panics.")}
	if run := r.work(t.Context()); run.Status != agent.Finished {
		t.Fatalf("run %+v", run)
	}
	s := agent.Fold(r.id, r.events())
	if s.Post == nil || s.Post.Failure == nil || s.Post.Failure.Code != "forge_unreachable" || len(s.Told) > 0 {
		t.Errorf("the state is %+v", s.Reviewing)
	}
	p.before = nil
	r.follow("Try again.")
	r.model.steps = append(r.model.steps, say("Yes."))
	r.work(t.Context())
	if s = agent.Fold(r.id, r.events()); s.Post.Failure != nil || len(s.Told) != 1 || len(p.posted) != 2 || len(p.posted[1].Comments) != 1 {
		t.Errorf("the state is %+v", s.Reviewing)
	}
}

// A reviewer that reaches a limit posts the findings that it has so far.
func TestReviewAtALimit(t *testing.T) {
	r := newRig(t, true).pullReviewer(agent.ReviewedPull{URL: "https://git.test/o/r/pull/1", RepoURL: "https://git.test/o/r", Number: 1})
	p := &pulls{}
	r.pulls, r.allowed.Turns = p, 1
	r.model.steps = []step{use(reportOne), say("It panics.")}
	if run := r.work(t.Context()); run.Status != agent.Expired {
		t.Fatalf("run %+v", run)
	}
	if len(p.posted) != 1 || !strings.HasSuffix(p.posted[0].Body, "complete false") || len(p.posted[0].Comments) != 1 {
		t.Errorf("posted %+v", p.posted)
	}
}

// fuse simulates a server that is killed before or after one of its effects. An
// effect is an append, or a request that changes something on the forge.
type fuse struct{ left int }

var errKilled = errors.New("the server was killed")

func (f *fuse) run(effect func() error) error {
	if f.left--; f.left < 0 {
		return errKilled
	}
	if err := effect(); err != nil {
		return err
	}
	if f.left--; f.left < 0 {
		return errKilled
	}
	return nil
}

type mortalForge struct {
	*fake.Forge
	fuse *fuse
	die  func()
}

func (m mortalForge) effect(effect func() error) error {
	err := m.fuse.run(effect)
	if errors.Is(err, errKilled) {
		m.die()
	}
	return err
}

func (m mortalForge) PostReview(ctx context.Context, r forge.Repo, number int, n forge.NewReview) (c forge.Comment, err error) {
	err = m.effect(func() (err error) { c, err = m.Forge.PostReview(ctx, r, number, n); return err })
	return c, err
}

func (m mortalForge) Resolve(ctx context.Context, r forge.Repo, number int, id string) error {
	return m.effect(func() error { return m.Forge.Resolve(ctx, r, number, id) })
}

func (m mortalForge) SetStatus(ctx context.Context, r forge.Repo, commit string, s forge.Status) error {
	return m.effect(func() error { return m.Forge.SetStatus(ctx, r, commit, s) })
}

// mortalJournal is the journal of the server that fuse kills.
type mortalJournal struct {
	store.Journal
	fuse *fuse
	die  func()
}

func (m mortalJournal) Append(ctx context.Context, a store.Append) (events []agent.Event, err error) {
	err = m.fuse.run(func() (err error) { events, err = m.Journal.Append(ctx, a); return err })
	if errors.Is(err, errKilled) {
		m.die()
		return nil, store.ErrClosed
	}
	return events, err
}

// The server is killed before and after each of its effects, and another server
// continues. The pull request must get one review that contains each comment
// once.
func TestReviewerDiesAtEveryStep(t *testing.T) {
	killed := 0
	for at, done := 0, false; !done; at++ {
		if at > 200 {
			t.Fatal("it never finishes")
		}
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			f := fake.New("git.test")
			repo := f.Add("o/r", "main")
			head := f.Push(repo, "b")
			p, err := f.Open(t.Context(), forge.NewPullRequest{Repo: repo, Head: "b", Base: "main", Title: "x"})
			if err != nil {
				t.Fatal(err)
			}
			f.SetDiff(repo, p.Number, reviewedChange)
			thread := f.SayOn(repo, p.Number, "ada", "list.go", 11, "It is slow.")
			r := newRig(t, true).pullReviewer(agent.ReviewedPull{URL: p.URL, RepoURL: "https://git.test/o/r", Number: int64(p.Number), Commit: head, Since: strings.Repeat("1", 40),
				Changed: []agent.ChangedLines{{Path: "list.go"}, {Path: "list.go", First: 11, Last: 11}},
				Earlier: []agent.EarlierFinding{{ID: "E-1", ThreadID: thread, Path: "list.go", Line: 11, Title: "High: It is slow"}}})
			r.record(&agent.FindingsReported{Fixed: []string{"E-1"}})
			for _, left := range []int{at, 1 << 30} { // the killed server and its successor
				b := &fuse{left: left}
				ctx, cancel := context.WithCancelCause(t.Context())
				die := func() { cancel(loop.ErrStop) }
				r.change = func(c *loop.Config) {
					c.Journal = mortalJournal{r.store, b, die}
					c.Models.Model = played{own: []step{use(reportOne), say("It panics.")}}
					c.Pulls = pull.New(pull.Config{
						Forges: forge.Set{"git.test": mortalForge{f, b, die}}, Journal: c.Journal, Link: func(id string) string { return "https://aloft.test/" + id },
						Secrets: func(string) map[string]string { return nil }, Mark: func(words ...string) string { return fmt.Sprintf("%x", words) }, Logger: slog.New(slog.DiscardHandler),
					})
				}
				err := loop.Run(ctx, r.id, r.config())
				cancel(nil)
				if b.left >= 0 {
					if err != nil {
						t.Fatal(err)
					}
					done = left == at // the first server was not killed
					break
				}
				killed++
			}
			reviews, err := f.Reviews(t.Context(), repo, p.Number)
			if err != nil || len(reviews) != 1 {
				t.Fatalf("reviews %+v, %v", reviews, err)
			}
			threads, err := f.Threads(t.Context(), repo, p.Number)
			if err != nil || len(threads) != 2 || !threads[0].Resolved || threads[1].Resolved || strings.Count(threads[1].Comments[0].Body, "Index out of range") != 1 {
				t.Fatalf("threads %+v, %v", threads, err)
			}
			checks, err := f.Checks(t.Context(), repo, head)
			if err != nil || len(checks) != 1 || len(f.Plain(repo, p.Number)) != 0 {
				t.Fatalf("checks %+v, %v", checks, err)
			}
			if s := agent.Fold(r.id, r.events()); s.Run.Status != agent.Finished || s.Post == nil || s.Post.URL == "" || len(s.Post.Remarks) > 0 || len(s.Told) != 1 {
				t.Fatalf("the state is %+v", s.Reviewing)
			}
		})
		if t.Failed() {
			return
		}
	}
	if killed < 20 {
		t.Errorf("the server was killed only %d times", killed)
	}
}
