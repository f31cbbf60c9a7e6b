package schedule

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"aloft/internal/agent"
	"aloft/internal/control/store"
	"aloft/internal/fault"
	"aloft/internal/redact"
	"aloft/internal/secret"
	"aloft/internal/tool"
)

// maxPatches is the maximum total size of an agent's patches, in bytes.
const maxPatches = 4 << 20

// patches returns the changes that another agent has pushed to the agent's
// repositories, since the merge base with the agent's branch. It is
// [loop.Config.Patches]. It does not find agents of other owners, because an
// agent may see no more than its owner.
func (s *Scheduler) patches(ctx context.Context, state *agent.State, otherID string) ([]tool.Patch, error) {
	missing := fault.NotFound("you have no other agent %q", otherID)
	if !agent.ValidID(otherID) || otherID == state.Agent.ID {
		return nil, missing
	}
	a, err := s.Agents.Agent(ctx, otherID)
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && a.UserID != state.Agent.UserID:
		return nil, missing
	case err != nil:
		return nil, err
	}
	other, err := s.Fleet.State(ctx, otherID)
	if err != nil {
		return nil, err
	}
	folders := agent.Folders(state.Agent.Repos)
	var out []tool.Patch
	shared, pushed, room := false, false, maxPatches
	for n, repo := range state.Agent.Repos {
		for m, theirs := range other.Agent.Repos {
			if secret.Repo(theirs.URL) != secret.Repo(repo.URL) {
				continue
			}
			shared = true
			from, to := state.Checkout(n), other.Checkout(m)
			if !to.Pushed || to.BaseCommit == "" {
				continue
			}
			pushed = true
			base := to.BaseCommit
			if from.Pushed { // a fork's diff then omits the state from which it started
				base = "refs/heads/" + from.Branch
			}
			patch, err := s.Gateway.Patch(ctx, repo.URL, base, to.Branch, room)
			if err != nil {
				return nil, err
			}
			if room -= len(patch.Text); len(patch.Text) > 0 {
				out = append(out, tool.Patch{Folder: strings.TrimPrefix(strings.TrimPrefix(folders[n], agent.Workspace), "/"), Text: patch.Text, Files: patch.Files})
			}
		}
	}
	switch {
	case !shared:
		return nil, fault.Invalid("%s works on none of your repositories", otherID)
	case !pushed:
		return nil, fault.Conflict("%s has pushed nothing yet, and what it has not pushed cannot be read", otherID)
	}
	hide := redact.New(s.Fleet.SecretsOf(state.Agent.ID))
	for _, p := range out {
		if hide.Contains(p.Text) {
			return nil, fault.Denied("the changes of %s contain a secret of yours", otherID)
		}
	}
	return out, nil
}

// pushedDiff returns at most limit bytes of the agent's changes on the servers
// of its repositories. It is [loop.Config.Diff].
func (s *Scheduler) pushedDiff(ctx context.Context, state *agent.State, limit int) (diff string, truncated bool, err error) {
	var all strings.Builder
	for n, repo := range state.Agent.Repos {
		was := state.Checkout(n)
		if !was.Pushed || was.BaseCommit == "" {
			continue
		}
		one, cut, err := s.Gateway.Diff(ctx, repo.URL, was.BaseCommit, was.Branch, max(limit-all.Len(), 0))
		if err != nil {
			return "", false, err
		}
		truncated = truncated || cut
		if one != "" && len(state.Agent.Repos) > 1 {
			fmt.Fprintf(&all, "# %s\n", repo.URL)
		}
		all.WriteString(one)
	}
	return redact.New(s.Fleet.SecretsOf(state.Agent.ID)).String(all.String()), truncated, nil
}
