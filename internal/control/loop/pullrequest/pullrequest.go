// Package pullrequest opens the pull requests of a run, and executes the tool
// calls with which the model opens, updates, reads and comments on them. Every
// request to a forge is journaled first, so that it is sent only once.
package pullrequest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/loop/journal"
	"aloft/internal/control/loop/remote"
	"aloft/internal/control/pull"
	"aloft/internal/conversation"
	"aloft/internal/fault"
	"aloft/internal/tool"
)

// Pulls opens pull requests. [pull.Desk] implements it. Its methods are safe
// for concurrent use, and their errors are faults.
type Pulls interface {
	// Can returns nil if a forge is configured for the repository, or else an
	// error.
	Can(repoURL string) error
	// Propose returns the pull request to open for the pushed commit of the
	// agent's n-th repository. It does not contact the forge.
	Propose(ctx context.Context, s *agent.State, n int, commit string, options pull.Options) (agent.PullRequestAsked, error)
	// Open opens the pull request. It is idempotent.
	Open(ctx context.Context, a agent.Agent, asked agent.PullRequestAsked) (agent.PullRequestOpened, error)
	// Read reads a pull request of the agent from the forge.
	Read(ctx context.Context, a agent.Agent, p agent.PullRequest, q pull.Question) (pull.Answer, error)
	// Wait repeats Read until there is something new, at most until the given
	// time.
	Wait(ctx context.Context, a agent.Agent, p agent.PullRequest, q pull.Question, until time.Time) (pull.Answer, error)
	// Compose returns the comment to send for the model's text.
	Compose(ctx context.Context, s *agent.State, p agent.PullRequest, callID, threadID, body string) (agent.PullRequestSaid, error)
	// Say adds a comment, and returns its address. again means that an earlier
	// call may have added the comment; Say does not add it twice.
	Say(ctx context.Context, a agent.Agent, p agent.PullRequest, comment agent.PullRequestSaid, again bool) (url string, err error)
	// Resolve marks a review thread as resolved. It is idempotent.
	Resolve(ctx context.Context, a agent.Agent, p agent.PullRequest, threadID string) error
	// ComposeReview returns the review to post for the findings that were not posted
	// yet. It does not contact the forge.
	ComposeReview(ctx context.Context, s *agent.State, complete bool) (agent.ReviewComposed, error)
	// PostReview posts a review. It is idempotent.
	PostReview(ctx context.Context, of agent.ReviewedPull, n agent.ReviewComposed) (agent.ReviewPosted, error)
}

// Pusher pushes the branch of the agent's n-th repository.
type Pusher interface {
	Push(ctx context.Context, n int, branch string, skipHooks bool) (remote.Delivered, error)
}

// Requests are the pull requests of a run. Their calls belong to the agent's own
// conversation. The methods are safe for concurrent use.
type Requests struct {
	Pulls    Pulls // nil if there is no forge
	Recorder *journal.Recorder
	// Privacy reports whether the run is in privacy mode.
	Privacy func(ctx context.Context) (bool, error)
	// HoldsSecret reports whether a text contains a secret.
	HoldsSecret func(s *agent.State, text string) bool
	Log         *slog.Logger

	heard heard
}

// proposeWithin is how long the end of a run waits for a forge.
const proposeWithin = 2 * time.Minute

// Propose opens the pull requests that the agent's owner has asked for: one for
// each repository with a pushed branch. Each request is journaled first, so
// that after a crash it is repeated unchanged.
func (r *Requests) Propose(ctx context.Context) error {
	s := r.Recorder.Snapshot()
	if !s.Agent.Pull.Auto || s.Mode == agent.ModePlan {
		return nil
	}
	for n, repo := range s.Agent.Repos {
		p := s.Proposal(repo.URL)
		if p.Over || !s.Checkout(n).Pushed && len(s.Agent.Repos) > 1 {
			continue
		}
		asked := p.Asked
		if asked == nil {
			var err error
			if asked, err = r.proposal(ctx, n); err != nil {
				return err
			}
		}
		if asked == nil {
			continue
		}
		if _, err := r.pull(ctx, *asked); err != nil && (ctx.Err() != nil || !fault.Has(err)) {
			return err
		}
	}
	return nil
}

// proposal journals the pull request to open. If none can be opened, it
// journals why and returns nil.
func (r *Requests) proposal(ctx context.Context, n int) (*agent.PullRequestAsked, error) {
	s := r.Recorder.Snapshot()
	asked, err := agent.PullRequestAsked{RepoURL: s.Agent.Repos[n].URL, Branch: s.Checkout(n).Branch}, error(errNoForges())
	if r.Pulls != nil {
		within, cancel := context.WithTimeout(ctx, proposeWithin)
		asked, err = r.Pulls.Propose(within, s, n, r.commitOf(asked.RepoURL), pull.Options{Draft: s.Agent.Pull.Draft, LastWords: s.LastWords()})
		cancel()
	}
	asked.By = agent.PullByRun
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, r.notPulled(ctx, asked, err)
	}
	return &asked, r.Recorder.Record(ctx, &asked)
}

// commitOf returns the commit to which a repository's branch was pushed, or "".
func (r *Requests) commitOf(repoURL string) string {
	for _, b := range r.Recorder.Snapshot().Run.Branches {
		if b.RepoURL == repoURL {
			return b.Commit
		}
	}
	return ""
}

// pull opens the journaled pull request, and journals the result. If the forge
// refuses, its error is a fault.
func (r *Requests) pull(ctx context.Context, asked agent.PullRequestAsked) (agent.PullRequest, error) {
	within, cancel := context.WithTimeout(ctx, proposeWithin)
	defer cancel()
	opened, err := agent.PullRequestOpened{}, error(errNoForges())
	if r.Pulls != nil {
		opened, err = r.Pulls.Open(within, r.Recorder.Snapshot().Agent, asked)
	}
	if ctx.Err() != nil {
		return agent.PullRequest{}, context.Cause(ctx)
	}
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fault.Unavailable("the forge did not answer in %v", proposeWithin).Named("forge_unreachable").Hint("try again later")
		}
		if written := r.notPulled(ctx, asked, err); written != nil {
			return agent.PullRequest{}, written
		}
		return agent.PullRequest{}, fault.Of(err)
	}
	opened.By = asked.By
	return opened.PullRequest, r.Recorder.Record(ctx, &opened)
}

// notPulled journals why there is no pull request.
func (r *Requests) notPulled(ctx context.Context, asked agent.PullRequestAsked, err error) error {
	failure := pull.FailureOf(err)
	r.Log.Warn("no pull request", "code", failure.Code, "by", asked.By, "error", err)
	return r.Recorder.Record(ctx, &agent.PullRequestFailed{RepoURL: asked.RepoURL, Branch: asked.Branch, By: asked.By, Failure: failure})
}

func errNoForges() *fault.Error {
	return fault.Invalid("this server has no forge").Named("integration_not_connected").
		Hint("add the host's URL and a token to git.credentials in the configuration")
}

// pullArgs are the arguments of the PrManagement tool.
type pullArgs struct {
	Action     string `json:"action"`
	Title      string `json:"title"`
	Body       string `json:"body"`
	BaseBranch string `json:"base_branch"`
	Draft      bool   `json:"draft"`
	RepoURL    string `json:"repo_url"`
	ThreadID   string `json:"thread_id"`
	Check      string `json:"check"`
	Timeout    *int64 `json:"timeout"` // milliseconds
}

// Manage runs a PrManagement call for the branch of one of the agent's
// repositories: it pushes the branch and opens or updates its pull request, or
// reads and answers comments on the pull request. The call cannot name any
// other branch or pull request.
func (r *Requests) Manage(ctx context.Context, c conversation.ToolCall, m Pusher) (tool.Result, error) {
	var in pullArgs
	d := json.NewDecoder(bytes.NewReader(c.Args))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return tool.Failed("the arguments do not match the schema: %v", err), nil
	}
	s := r.Recorder.Snapshot()
	n := 0
	for n < len(s.Agent.Repos) && in.RepoURL != "" && s.Agent.Repos[n].URL != in.RepoURL {
		n++
	}
	if n >= len(s.Agent.Repos) {
		return tool.Failed("repo_url is not one of your repositories"), nil
	}
	url, was := s.Agent.Repos[n].URL, s.Checkout(n)
	there := s.Agent.PullRequest(url, was.Branch)
	switch {
	case in.Action != "PR_ACTION_CREATE" && in.Action != "PR_ACTION_UPDATE":
		return r.discuss(ctx, c.ID, in, there)
	case r.HoldsSecret(s, in.Title+"\n"+in.Body):
		return tool.Failed("the title or body contains a secret, so nothing was sent: write them without the secret"), nil
	case strings.TrimSpace(in.Title) == "" && in.Action == "PR_ACTION_CREATE":
		return tool.Failed("title is missing: describe the change in one line"), nil
	case in.Action == "PR_ACTION_UPDATE" && (there == nil || there.URL == ""):
		return tool.Failed("your branch has no pull request: use PR_ACTION_CREATE"), nil
	case in.Action == "PR_ACTION_UPDATE":
		in.Title, in.Body = cmp.Or(in.Title, there.Title), cmp.Or(in.Body, there.Body)
	}
	done, err := m.Push(ctx, n, was.Branch, false)
	commit := done.Commit
	switch {
	case err != nil && (errors.Is(err, remote.ErrLost) || ctx.Err() != nil || !fault.Has(err)):
		return tool.Result{}, err
	case err != nil:
		return notManaged("the branch was not pushed: ", err), nil
	}
	if err := r.Recorder.Record(ctx, &agent.Pushed{RepoURL: url, Branch: was.Branch, Commit: commit, Unhooked: done.Note}); err != nil {
		return tool.Result{}, err
	}
	if r.Pulls == nil {
		return notManaged("", errNoForges()), nil
	}
	within, cancel := context.WithTimeout(ctx, proposeWithin)
	defer cancel()
	asked, err := r.Pulls.Propose(within, r.Recorder.Snapshot(), n, commit, pull.Options{
		Title: in.Title, Body: in.Body, Base: in.BaseBranch, Draft: in.Draft || s.Agent.Pull.Draft,
	})
	if err != nil {
		if ctx.Err() != nil {
			return tool.Result{}, context.Cause(ctx)
		}
		return notManaged("", err), nil
	}
	privacy, err := r.Privacy(ctx)
	if err != nil {
		return tool.Result{}, err
	}
	asked.By, asked.CallID, asked.Force = agent.PullByTool, c.ID, !privacy
	if err := r.Recorder.Record(ctx, &asked); err != nil {
		return tool.Result{}, err
	}
	p, err := r.pull(ctx, asked)
	switch {
	case err != nil && (ctx.Err() != nil || !fault.Has(err)):
		return tool.Result{}, err
	case err != nil:
		return notManaged("", err), nil
	}
	output, err := json.Marshal(map[string]any{"success": map[string]any{"url": p.URL, "number": p.Number}})
	if err != nil {
		return tool.Result{}, err
	}
	text := fmt.Sprintf("The pull request is at %s: %s into %s, at commit %.12s.", p.URL, was.Branch, p.Base, commit)
	if privacy {
		text += " Privacy mode is on: your title and body were not sent; the pull request has a generic text."
	}
	return tool.Result{Text: text, Output: output}, nil
}

// notManaged tells the model why there is no pull request.
func notManaged(what string, err error) tool.Result {
	f := fault.Of(err)
	text := "No pull request: " + what + f.Message
	if f.Advice != "" {
		text += ". To fix this: " + f.Advice
	}
	return tool.Failed("%s", text)
}
