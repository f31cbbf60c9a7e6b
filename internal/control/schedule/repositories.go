package schedule

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"aloft/internal/agent"
	"aloft/internal/control/gateway"
	"aloft/internal/control/loop"
	"aloft/internal/control/pod"
	"aloft/internal/environment"
	"aloft/internal/fault"
	"aloft/internal/redact"
)

// findPulls finds out where an agent begins that was started on pull requests.
func (w *worker) findPulls(ctx context.Context, state *agent.State, record loop.Record) error {
	for _, repo := range state.Agent.Repos {
		if repo.PullRequest == "" || slices.ContainsFunc(state.Agent.PullRequests, func(p agent.PullRequest) bool { return p.RepoURL == repo.URL }) {
			continue
		}
		if w.s.Pulls == nil {
			return fault.Invalid("this server has no forge to find %s at", repo.PullRequest).Named("integration_not_connected").
				Hint("add the host's URL and a token to git.credentials in the configuration")
		}
		found, err := w.s.Pulls.Found(ctx, repo.URL, repo.PullRequest)
		if err != nil {
			return err
		}
		if err := record(ctx, &agent.PullRequestFound{PullRequest: found}); err != nil {
			return err
		}
	}
	return nil
}

// mayReach returns a fault unless the user may run agents on the repository.
func (s *Scheduler) mayReach(ctx context.Context, userID int64, repoURL string) error {
	if s.MayReach == nil {
		return nil
	}
	return s.MayReach(ctx, userID, repoURL)
}

// pulls are what a loop asks; nil where there is nothing to ask.
func (s *Scheduler) pulls() loop.Pulls {
	if s.Pulls == nil {
		return nil
	}
	return s.Pulls
}

// branches returns the branch to work on in each of the agent's repositories.
func (w *worker) branches(ctx context.Context, state *agent.State, record loop.Record) ([]string, error) {
	var out []string
	for n := range state.Agent.Repos {
		branch, err := w.branchOf(ctx, state, n, record)
		if err != nil {
			return nil, err
		}
		out = append(out, branch)
	}
	return out, nil
}

// branchOf returns the branch to work on in the n-th repository. Where the agent
// is new it finds out, before anything is paid for, whether there is something
// to clone and a branch to push.
func (w *worker) branchOf(ctx context.Context, state *agent.State, n int, record loop.Record) (string, error) {
	was := state.Checkout(n)
	if was.BaseCommit != "" {
		return was.Branch, nil
	}
	branch := was.Branch
	if branch == "" && !state.Agent.WorkOnCurrentBranch {
		branch = state.Branch // one name in all
	}
	info, err := w.check(ctx, state, n, record)
	if err != nil {
		return "", err
	}
	repo := state.Agent.Repos[n]
	if n == 0 {
		w.origin, w.rulesAt = info.Commit, info.Branches[info.DefaultBranch]
	}
	if branch == "" { // the agent works on the branch that it starts from
		if repo.StartingRef == "" {
			return info.DefaultBranch, nil
		}
		if info.Branch == "" {
			return "", fault.Invalid("%s is no branch, and the agent is to work on the branch that it starts from", repo.StartingRef).
				Named("ref_not_branch").Hint("name a branch in startingRef, or leave workOnCurrentBranch out")
		}
		return info.Branch, nil
	}
	if _, taken := info.Branches[branch]; taken && state.MachineID == "" {
		return "", fault.Conflict("the branch %s is on the remote %s already", branch, repo.URL).Named("branch_taken").
			Hint("start the agent again: it takes another name")
	}
	return branch, nil
}

// check resolves where the work on the n-th repository starts. If that is the
// team's base branch, and the repository has no such branch, the work starts at the
// repository's default branch: the journal and the model are told.
func (w *worker) check(ctx context.Context, state *agent.State, n int, record loop.Record) (gateway.RefInfo, error) {
	repo := state.Agent.Repos[n]
	info, err := w.s.Gateway.Check(ctx, repo.URL, repo.StartingRef)
	if !repo.TeamBase || fault.Of(err).Code != gateway.CodeRefNotFound {
		return info, err
	}
	if info, err = w.s.Gateway.Check(ctx, repo.URL, ""); err != nil {
		return info, err
	}
	words := fmt.Sprintf("%s has no branch %s, the base branch of the team's settings: the work starts at its default branch, %s.", repo.URL, repo.StartingRef, info.DefaultBranch)
	return info, record(ctx, &agent.BaseMissing{RepoURL: repo.URL, Branch: repo.StartingRef}, &agent.Notice{Code: agent.CodeBaseMissing, Text: words})
}

// checkouts are what the machine's workspace holds.
func (s *Scheduler) checkouts(state *agent.State, branches []string) (first pod.Checkout, others []pod.Checkout) {
	var all []pod.Checkout
	folders := agent.Folders(state.Agent.Repos)
	for n, repo := range state.Agent.Repos {
		all = append(all, pod.Checkout{
			RepoURL: repo.URL, Ref: repo.StartingRef, Branch: branches[n], Path: folders[n],
			AuthorName: s.Author.Name, AuthorEmail: s.Author.Email,
			Resume: state.Checkout(n).BaseCommit != "", Owner: state.Agent.ID, Continues: continues(state),
		})
	}
	return all[0], all[1:]
}

// several are the URLs of repositories that need to be told apart.
func several(repos []agent.Repo) (urls []string) {
	for _, r := range repos {
		if len(repos) > 1 {
			urls = append(urls, r.URL)
		}
	}
	return urls
}

// others are what a machine has checked out beside the first repository.
func others(ready pod.Ready) []agent.Checkout {
	var out []agent.Checkout
	for _, o := range ready.Others {
		out = append(out, agent.Checkout{BaseCommit: o.BaseCommit, Branch: o.Branch})
	}
	return out
}

// reachRequest is what the agent's repositories would have git fetch beside them, as of
// the commits that the work began at.
func (s *Scheduler) reachRequest(state *agent.State, e environment.Environment) gateway.ReachRequest {
	w := gateway.ReachRequest{Named: e.RepositoryDependencies, Allow: s.Dependencies, Ruled: s.Dependencies != nil, May: func(ctx context.Context, url string) bool {
		return s.mayReach(ctx, state.Agent.UserID, url) == nil
	}}
	for n, repo := range state.Agent.Repos {
		ref := repo.StartingRef
		if n == 0 {
			ref = cmp.Or(state.Agent.Origin, ref)
		}
		w.Own = append(w.Own, gateway.Source{URL: repo.URL, Ref: ref})
	}
	return w
}

// grant is what git in the machine may do.
func (w *worker) grant(h *readyMachine, state *agent.State, branches []string) gateway.Grant {
	g := gateway.Grant{
		AgentID: state.Agent.ID, RunID: state.Run.ID,
		Credential: w.s.token("git", state.Run.ID),
		Repos:      h.reads,
		Push:       map[string]string{},
		Existing:   state.Agent.WorkOnCurrentBranch,
		AllowForce: !state.Agent.WorkOnCurrentBranch,
		Secrets:    w.s.secrets(state.Agent.ID),
	}
	for n, repo := range state.Agent.Repos {
		g.Push[repo.URL] = branches[n]
		if state.Checkout(n).Pushed {
			g.Pushed = append(g.Pushed, repo.URL)
		}
	}
	return g
}

// maxDiff bounds a diff, in bytes.
const maxDiff = 4 << 20

// Diff returns what the agent has changed: in its machine, or, where that does
// not run, what it has pushed. Of several repositories each with a change has a
// line with its URL before it.
func (s *Scheduler) Diff(ctx context.Context, agentID string) (diff string, truncated bool, err error) {
	state, err := s.fold(ctx, agentID)
	if err != nil {
		return "", false, err
	}
	var all strings.Builder
	for n, repo := range state.Agent.Repos {
		one, cut, err := s.diffOf(ctx, state, n)
		if err != nil {
			return "", false, err
		}
		truncated = truncated || cut
		if room := maxDiff - all.Len(); len(one) > room {
			one, truncated = one[:strings.LastIndexByte(one[:room], '\n')+1], true
		}
		if one != "" && len(state.Agent.Repos) > 1 {
			fmt.Fprintf(&all, "# %s\n", repo.URL)
		}
		all.WriteString(one)
	}
	return all.String(), truncated, nil
}

func (s *Scheduler) diffOf(ctx context.Context, state *agent.State, n int) (diff string, truncated bool, err error) {
	was := state.Checkout(n)
	s.mu.Lock()
	w := s.workers[state.Agent.ID]
	s.mu.Unlock()
	if w != nil {
		if h := w.current.Load(); h != nil {
			if diff, truncated, err := h.conn.Diff(ctx, n, was.BaseCommit); err == nil {
				return diff, truncated, nil
			}
		}
	}
	if was.BaseCommit == "" {
		return "", false, nil
	}
	if w == nil && state.MachineID != "" {
		err := s.idle(ctx, state, func(conn *pod.Conn) (err error) {
			diff, truncated, err = conn.Diff(ctx, n, was.BaseCommit)
			return err
		})
		if err == nil {
			return diff, truncated, nil
		}
	}
	if n > 0 && !was.Pushed {
		return "", false, nil
	}
	diff, truncated, err = s.Gateway.Diff(ctx, state.Agent.Repos[n].URL, was.BaseCommit, was.Branch, maxDiff)
	return redact.New(s.secrets(state.Agent.ID)).String(diff), truncated, err
}
