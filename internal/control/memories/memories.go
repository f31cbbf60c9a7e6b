// Package memories gives agents the memories of their repositories, and stores what
// agents write down. It decides which agents take part: the team's setting must allow it
// for the repository, the agent's owner must have access to the repository, and nobody
// who may not write to the repository may have caused the work.
package memories

import (
	"context"
	"log/slog"
	"slices"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/forge"
	"aloft/internal/control/store"
	"aloft/internal/fault"
	"aloft/internal/rule"
	"aloft/internal/secret"
)

// Store is the part of the store that a [Keeper] uses.
type Store interface {
	store.Memories
	store.Rules
	User(ctx context.Context, id int64) (account.User, error)
}

// A Keeper stores memories. Its methods are safe for concurrent use.
type Keeper struct {
	Store  Store
	Forges forge.Set // to find out who may write to a repository
	Logger *slog.Logger
}

// Rules returns the approved memories of an agent's repositories as rules. Reviewers get
// none, because a stranger may have written the change that they review.
func (k *Keeper) Rules(ctx context.Context, a agent.Agent) (rules []rule.Rule, err error) {
	repos, err := k.repositories(ctx, a)
	if err != nil || len(repos) == 0 || a.Env.Preset == agent.Reviewer || k.outsider(ctx, a) != "" {
		return nil, err
	}
	for _, r := range repos {
		all, err := k.Store.ListMemories(ctx, r.name)
		if err != nil {
			return nil, err
		}
		for _, m := range all {
			if m.Approved() {
				rules = append(rules, m.Rule())
			}
		}
	}
	return rules, nil
}

// Unavailable returns what the agent lacks to write memories, as in "needs a
// repository", or "" if it may write them.
func (k *Keeper) Unavailable(ctx context.Context, s *agent.State) (needs string, err error) {
	repos, err := k.repositories(ctx, s.Agent)
	switch {
	case err != nil:
		return "", err
	case len(repos) == 0:
		return "a repository for which the team's setting memory is on", nil
	case s.Review != nil:
		return "an agent that does not review a change", nil
	case s.OnPull && s.Fork != nil:
		return "an agent that was not forked from one on a pull request", nil
	}
	if why := k.outsider(ctx, s.Agent); why != "" {
		return "a pull request whose author may write to the repository: " + why, nil
	}
	return "", nil
}

// A repository is one whose memories an agent may read and change.
type repository struct {
	url, name string // name is host/path
	review    bool   // a person must approve every change
}

// repositories returns the agent's repositories for which the setting is on and to which
// the agent's owner has access.
func (k *Keeper) repositories(ctx context.Context, a agent.Agent) (repos []repository, err error) {
	h, err := store.Settings(ctx, k.Store)
	if err != nil {
		return nil, err
	}
	for _, r := range a.Repos {
		name := secret.Repo(r.URL)
		mode := h.Now().MemoryFor(name)
		if mode == "" || slices.ContainsFunc(repos, func(o repository) bool { return o.name == name }) {
			continue
		}
		switch err := store.MayReach(ctx, k.Store, k.Store, a.UserID, r.URL); {
		case fault.Is(err, fault.KindDenied):
		case err != nil:
			return nil, err
		default:
			repos = append(repos, repository{r.URL, name, mode != account.MemoryOn})
		}
	}
	return repos, nil
}

// outsider returns why the author of a pull request on which the agent works may not
// write to the repository, or "" if there is no such author. An author about whom the
// forge cannot be asked counts as an outsider.
func (k *Keeper) outsider(ctx context.Context, a agent.Agent) (why string) {
	for _, r := range a.Repos {
		if r.PullRequest == "" {
			continue
		}
		why, err := k.outsiderOf(ctx, r.PullRequest)
		if err != nil {
			k.Logger.WarnContext(ctx, "cannot find out whether the author of a pull request may write to its repository", "agent", a.ID, "url", r.PullRequest, "error", err)
			why = "the git server could not be asked who may write"
		}
		if why != "" {
			return why
		}
	}
	return ""
}

func (k *Keeper) outsiderOf(ctx context.Context, pullRequest string) (why string, err error) {
	r, number, err := forge.ParsePullRequestURL(pullRequest)
	if err != nil {
		return "", err
	}
	f, r, err := k.Forges.Find(r)
	if err != nil {
		return "", err
	}
	p, err := f.Get(ctx, r, number)
	if err != nil {
		return "", err
	}
	return forge.Outsider(ctx, f, r, p.Author)
}
