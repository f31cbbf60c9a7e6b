package pull

import (
	"context"
	"fmt"
	"slices"

	"aloft/internal/agent"
	"aloft/internal/control/store"
	"aloft/internal/fault"
)

const readBatch = 1000 // events per read

// Proposal returns the default request of ByHand for a repository, as a preview
// for the user. It journals nothing.
func (d *Desk) Proposal(ctx context.Context, agentID, repoURL string) (agent.PullRequestAsked, error) {
	_, asked, err := d.proposal(ctx, agentID, repoURL, Options{})
	return asked, err
}

func (d *Desk) proposal(ctx context.Context, agentID, repoURL string, opts Options) (*agent.State, agent.PullRequestAsked, error) {
	s, err := d.fold(ctx, agentID)
	if err != nil {
		return nil, agent.PullRequestAsked{}, err
	}
	n, err := pushed(s, repoURL)
	if err != nil {
		return nil, agent.PullRequestAsked{}, err
	}
	info, err := d.Git.Check(ctx, s.Agent.Repos[n].URL, s.Checkout(n).Branch)
	if err != nil {
		return nil, agent.PullRequestAsked{}, err
	}
	opts.LastWords, opts.Person = s.LastWords(), true
	asked, err := d.Propose(ctx, s, n, info.Commit, opts)
	return s, asked, err
}

// ByHand opens the pull request of an agent's branch on behalf of a person, or
// updates the existing one. repoURL is one of the agent's repositories; ""
// means the first one with a pushed branch. Failures are journaled too, and
// returned as faults.
func (d *Desk) ByHand(ctx context.Context, userID int64, agentID, repoURL string, opts Options) (agent.PullRequest, error) {
	s, asked, err := d.proposal(ctx, agentID, repoURL, opts)
	if err != nil {
		return agent.PullRequest{}, err
	}
	asked.By, asked.UserID, asked.Force = agent.PullByPerson, userID, opts.Title != "" || opts.Body != ""
	record := func(ctx context.Context, b agent.Body) error {
		_, err := d.Journal.Append(ctx, store.Append{AgentID: agentID, Events: []agent.Event{{Body: b}}})
		return err
	}
	if err := record(ctx, &asked); err != nil {
		return agent.PullRequest{}, fmt.Errorf("write journal of %s: %w", agentID, err)
	}
	opened, err := d.Open(ctx, s.Agent, asked)
	last := context.WithoutCancel(ctx) // journal the result even if ctx was cancelled
	if err != nil {
		if ctx.Err() != nil {
			return agent.PullRequest{}, err
		}
		failed := &agent.PullRequestFailed{RepoURL: asked.RepoURL, Branch: asked.Branch, By: asked.By, Failure: FailureOf(err)}
		if err := record(last, failed); err != nil {
			return agent.PullRequest{}, err
		}
		return agent.PullRequest{}, err
	}
	if asked.Force {
		opened.PullRequest.Body = "" // a person's text, which no later run replaces
	}
	return opened.PullRequest, record(last, &opened)
}

// pushed returns the index of the agent's repository with the URL repoURL.
func pushed(s *agent.State, repoURL string) (int, error) {
	n := slices.IndexFunc(s.Agent.Repos, func(r agent.Repo) bool { return r.URL == repoURL })
	switch {
	case len(s.Agent.Repos) == 0:
		return 0, fault.Conflict("the agent has no repository").Named("repository_required")
	case repoURL != "" && n < 0:
		return 0, fault.Invalid("is not one of the agent's repositories").At("repoUrl")
	case n < 0:
		for n = 0; n < len(s.Agent.Repos)-1 && !s.Checkout(n).Pushed; n++ {
		}
	}
	if !s.Checkout(n).Pushed {
		return 0, fault.Conflict("the agent has not pushed its branch").Named(codeNotPushed).
			Hint("it is pushed at the end of a run that has changed something")
	}
	return n, nil
}

// fold reads the agent's journal.
func (d *Desk) fold(ctx context.Context, agentID string) (*agent.State, error) {
	s := agent.Fold(agentID, nil)
	for {
		events, err := d.Journal.Read(ctx, agentID, s.Agent.Head, readBatch)
		if err != nil {
			return nil, fmt.Errorf("read journal of %s: %w", agentID, err)
		}
		for _, e := range events {
			s.Apply(e)
		}
		if len(events) < readBatch {
			return s, nil
		}
	}
}
