package loop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/loop"
	"aloft/internal/control/pull"
	"aloft/internal/fault"
)

// pulls is a fake forge with at most one pull request per branch.
type pulls struct {
	opened map[string]agent.PullRequest
	asked  []agent.PullRequestAsked
	none   error        // returned by Propose
	before func() error // called before each Open
	desk   *pull.Desk   // for the methods about existing pull requests
	posted []agent.ReviewComposed
}

func (p *pulls) ComposeReview(_ context.Context, s *agent.State, complete bool) (agent.ReviewComposed, error) {
	out := agent.ReviewComposed{Body: fmt.Sprintf("%s, complete %v", s.LastWords(), complete), Mark: s.Run.ID}
	for _, f := range s.Findings {
		if !slices.Contains(s.Told, f.ID) {
			out.Comments = append(out.Comments, agent.ReviewComment{FindingID: f.ID})
		}
	}
	return out, p.none
}

func (p *pulls) PostReview(_ context.Context, of agent.ReviewedPull, n agent.ReviewComposed) (agent.ReviewPosted, error) {
	p.posted = append(p.posted, n)
	if p.before != nil {
		if err := p.before(); err != nil {
			return agent.ReviewPosted{}, err
		}
	}
	return agent.ReviewPosted{URL: of.URL + "#review"}, nil
}

func (p *pulls) Can(string) error { return nil }

func (p *pulls) Propose(_ context.Context, s *agent.State, n int, commit string, w pull.Options) (agent.PullRequestAsked, error) {
	title := w.Title
	if title == "" {
		title = "made of: " + w.LastWords
	}
	return agent.PullRequestAsked{
		RepoURL: s.Agent.Repos[n].URL, Branch: s.Branch, Commit: commit, Base: "main", Title: title, Body: w.Body, Draft: w.Draft,
	}, p.none
}

func (p *pulls) Open(_ context.Context, _ agent.Agent, asked agent.PullRequestAsked) (agent.PullRequestOpened, error) {
	p.asked = append(p.asked, asked)
	key := asked.RepoURL + " " + asked.Branch
	was, ok := p.opened[key]
	if !ok {
		if p.opened == nil {
			p.opened = map[string]agent.PullRequest{}
		}
		was = agent.PullRequest{RepoURL: asked.RepoURL, Branch: asked.Branch, Base: asked.Base, URL: asked.RepoURL + "/pulls/1", Number: 1, State: "open"}
		p.opened[key] = was
	}
	was.Title = asked.Title
	if p.before != nil {
		if err := p.before(); err != nil {
			return agent.PullRequestOpened{}, err
		}
	}
	return agent.PullRequestOpened{Made: !ok, PullRequest: was}, nil
}

func (p *pulls) Read(ctx context.Context, a agent.Agent, of agent.PullRequest, q pull.Question) (pull.Answer, error) {
	return p.desk.Read(ctx, a, of, q)
}

func (p *pulls) Wait(ctx context.Context, a agent.Agent, of agent.PullRequest, q pull.Question, until time.Time) (pull.Answer, error) {
	return p.desk.Wait(ctx, a, of, q, until)
}

func (p *pulls) Compose(ctx context.Context, s *agent.State, of agent.PullRequest, callID, threadID, body string) (agent.PullRequestSaid, error) {
	return p.desk.Compose(ctx, s, of, callID, threadID, body)
}

func (p *pulls) Say(ctx context.Context, a agent.Agent, of agent.PullRequest, said agent.PullRequestSaid, again bool) (string, error) {
	return p.desk.Say(ctx, a, of, said, again)
}

func (p *pulls) Resolve(ctx context.Context, a agent.Agent, of agent.PullRequest, threadID string) error {
	return p.desk.Resolve(ctx, a, of, threadID)
}

// newPullRig returns a rig whose agent opens pull requests.
func newPullRig(t *testing.T, repos ...string) *rig {
	t.Helper()
	r := newRig(t, true)
	r.id, r.pulls = agent.NewID(), &pulls{}
	created := &agent.Created{Name: "test", Branch: "aloft/test-0000", Pull: agent.PullRequestOptions{Auto: true, Draft: true}}
	for _, url := range append([]string{"https://git.example.com/r"}, repos...) {
		created.Repos = append(created.Repos, agent.Repo{URL: url})
	}
	r.begin(created)
	return r
}

func TestAPullRequestAtTheEnd(t *testing.T) {
	r := newPullRig(t)
	r.model.steps = []step{say("done")}
	if run := r.work(t.Context()); run.Status != agent.Finished {
		t.Fatalf("%+v", run)
	}
	opened := bodies[*agent.PullRequestOpened](r)
	if len(opened) != 1 || !opened[0].Made || opened[0].By != agent.PullByRun || len(bodies[*agent.PullRequestAsked](r)) != 1 {
		t.Errorf("%+v", opened)
	}
	if asked := r.pulls.asked[0]; asked.Title != "made of: done" || !asked.Draft || asked.Commit == "" {
		t.Errorf("asked %+v", asked)
	}
}

// If a server dies between the forge's reply and the journal write, the next
// server repeats the same request.
func TestAPullRequestIsAskedForAgainAfterACrash(t *testing.T) {
	r := newPullRig(t)
	ctx, stop := context.WithCancelCause(t.Context())
	r.pulls.before = func() error { stop(loop.ErrStop); return nil }
	r.model.steps = []step{say("done")}
	if err := loop.Run(ctx, r.id, r.config()); !errors.Is(err, loop.ErrStop) {
		t.Fatal(err)
	}
	r.pulls.before = nil
	if run := r.work(t.Context()); run.Status != agent.Finished {
		t.Fatalf("%+v", run)
	}
	if len(r.pulls.asked) != 2 || len(r.pulls.opened) != 1 || r.pulls.asked[0] != r.pulls.asked[1] {
		t.Errorf("asked %+v", r.pulls.asked)
	}
	if len(bodies[*agent.PullRequestAsked](r)) != 1 || len(bodies[*agent.PullRequestOpened](r)) != 1 {
		t.Error("the journal has it twice")
	}
}

// A failing forge does not fail the run.
func TestAForgeThatFails(t *testing.T) {
	for name, spoil := range map[string]func(*pulls){
		"OnOpen": func(p *pulls) {
			p.before = func() error { return fault.Denied("no").Named("forge_unauthorized").Hint("mend it") }
		},
		"OnPropose": func(p *pulls) { p.none = fault.Denied("no").Named("forge_unauthorized").Hint("mend it") },
		"OfOurs":    func(p *pulls) { p.before = func() error { return errors.New("a bug") } },
	} {
		t.Run(name, func(t *testing.T) {
			r := newPullRig(t)
			spoil(r.pulls)
			r.model.steps = []step{say("done")}
			run := r.work(t.Context())
			failed := bodies[*agent.PullRequestFailed](r)
			if run.Status != agent.Finished || run.Result != "done" || len(run.Branches) != 1 || len(failed) != 1 || failed[0].Failure.Code == "" {
				t.Errorf("%+v, %+v", run, failed)
			}
			if name != "OfOurs" && failed[0].Failure.Hint != "mend it" {
				t.Errorf("%+v", failed[0])
			}
		})
	}
}

func TestTheToolOpensOneAndTheEndKeepsIt(t *testing.T) {
	r := newPullRig(t)
	r.model.steps = []step{
		use(`PrManagement {"action":"PR_ACTION_UPDATE","title":"x"}`),
		use(`PrManagement {"action":"PR_ACTION_CREATE","title":"By the tool","body":"Words."}`),
		use(`PrManagement {"action":"PR_ACTION_CREATE","title":"x","repo_url":"https://git.example.com/other"}`),
		say("done"),
	}
	if run := r.work(t.Context()); run.Status != agent.Finished {
		t.Fatalf("%+v", run)
	}
	done := bodies[*agent.CallDone](r)
	if len(done) != 3 || !done[0].Error || done[1].Error || !done[2].Error || !strings.Contains(done[1].Text, "https://git.example.com/r/pulls/1") {
		t.Fatalf("%+v", done)
	}
	var out struct {
		Success struct {
			URL    string
			Number int
		}
	}
	if err := json.Unmarshal(done[1].Output, &out); err != nil || out.Success.Number != 1 {
		t.Errorf("%s: %v", done[1].Output, err)
	}
	if len(r.pulls.opened) != 1 || r.pulls.asked[0].By != agent.PullByTool || r.pulls.asked[0].Title != "By the tool" || !r.pulls.asked[0].Force {
		t.Errorf("asked %+v", r.pulls.asked)
	}
}

// TestArtifactsAreStoredFirst checks that artifacts are stored before the pull
// request that names them is opened.
func TestArtifactsAreStoredFirst(t *testing.T) {
	r := newPullRig(t)
	stored := 0
	r.pulls.before = func() error {
		r.machine.mu.Lock()
		defer r.machine.mu.Unlock()
		stored = r.machine.keeps
		return nil
	}
	r.model.steps = []step{use(`Shell {"command":"echo hi"}`), say("Done.")}
	r.work(t.Context())
	if len(r.pulls.asked) != 1 || stored != 1 {
		t.Errorf("%d pull requests, the first after the artifacts were stored %d times", len(r.pulls.asked), stored)
	}
}
