package fleet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"aloft/internal/agent"
	"aloft/internal/control/gateway"
	"aloft/internal/control/loop/journal"
	"aloft/internal/control/pod"
	"aloft/internal/environment"
	"aloft/internal/fault"
	"aloft/internal/redact"
)

// findPulls journals the pull requests from which the agent starts, and thereby
// their branches.
func (w *Work) findPulls(ctx context.Context, state *agent.State, record journal.Record) error {
	for _, repo := range state.Agent.Repos {
		if repo.PullRequest == "" || slices.ContainsFunc(state.Agent.PullRequests, func(p agent.PullRequest) bool { return p.RepoURL == repo.URL }) {
			continue
		}
		if w.fleet.Pulls == nil {
			return fault.Invalid("this server has no forge for %s", repo.PullRequest).Named("integration_not_connected").
				Hint("add the host's URL and a token to git.credentials in the configuration")
		}
		found, err := w.fleet.Pulls.Found(ctx, repo.URL, repo.PullRequest)
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
func (f *Fleet) mayReach(ctx context.Context, userID int64, repoURL string) error {
	if f.MayReach == nil {
		return nil
	}
	return f.MayReach(ctx, userID, repoURL)
}

// branches returns the branch to work on in each of the agent's repositories.
func (w *Work) branches(ctx context.Context, state *agent.State, record journal.Record) ([]string, error) {
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

// branchOf returns the branch to work on in the n-th repository. For a new
// agent it first checks that the repository can be cloned and the branch
// pushed, before anything costs money.
func (w *Work) branchOf(ctx context.Context, state *agent.State, n int, record journal.Record) (string, error) {
	was := state.Checkout(n)
	if was.BaseCommit != "" {
		return was.Branch, nil
	}
	branch := was.Branch
	if branch == "" && !state.Agent.WorkOnCurrentBranch {
		branch = state.Branch // the same name in all repositories
	}
	info, err := w.check(ctx, state, n, record)
	if err != nil {
		return "", err
	}
	repo := state.Agent.Repos[n]
	if n == 0 {
		w.origin, w.rulesAt = info.Commit, info.Branches[info.DefaultBranch]
	}
	if branch == "" { // the agent works on the starting branch
		if repo.StartingRef == "" {
			return info.DefaultBranch, nil
		}
		if info.Branch == "" {
			return "", fault.Invalid("%s is not a branch, but the agent must work on its starting branch", repo.StartingRef).
				Named("ref_not_branch").Hint("name a branch in startingRef, or leave workOnCurrentBranch out")
		}
		return info.Branch, nil
	}
	if _, taken := info.Branches[branch]; taken && state.MachineID == "" {
		return "", fault.Conflict("the branch %s already exists on the remote %s", branch, repo.URL).Named("branch_taken").
			Hint("start the agent again; it will use another name")
	}
	return branch, nil
}

// check resolves the ref at which the work on the n-th repository starts. If
// that ref is the team's base branch and the repository lacks it, the work
// starts at the default branch; check records this in the journal and tells the
// model.
func (w *Work) check(ctx context.Context, state *agent.State, n int, record journal.Record) (gateway.RefInfo, error) {
	repo := state.Agent.Repos[n]
	info, err := w.fleet.Gateway.Check(ctx, repo.URL, repo.StartingRef)
	if !repo.TeamBase || fault.Of(err).Code != gateway.CodeRefNotFound {
		return info, err
	}
	if info, err = w.fleet.Gateway.Check(ctx, repo.URL, ""); err != nil {
		return info, err
	}
	words := fmt.Sprintf("%s has no branch %s, the base branch of the team's settings: the work starts at its default branch, %s.", repo.URL, repo.StartingRef, info.DefaultBranch)
	return info, record(ctx, &agent.BaseMissing{RepoURL: repo.URL, Branch: repo.StartingRef}, &agent.Notice{Code: agent.CodeBaseMissing, Text: words})
}

// checkouts returns the repositories for the machine's workspace.
func (f *Fleet) checkouts(state *agent.State, branches []string) (first pod.Checkout, others []pod.Checkout) {
	var all []pod.Checkout
	folders := agent.Folders(state.Agent.Repos)
	for n, repo := range state.Agent.Repos {
		all = append(all, pod.Checkout{
			RepoURL: repo.URL, Ref: repo.StartingRef, Branch: branches[n], Path: folders[n],
			AuthorName: f.Author.Name, AuthorEmail: f.Author.Email,
			Resume: state.Checkout(n).BaseCommit != "", Owner: state.Agent.ID, Continues: continues(state),
		})
	}
	return all[0], all[1:]
}

// several returns the URLs of the repositories if there is more than one.
func several(repos []agent.Repo) (urls []string) {
	for _, r := range repos {
		if len(repos) > 1 {
			urls = append(urls, r.URL)
		}
	}
	return urls
}

// others returns the checkouts of the repositories except the first.
func others(ready pod.Ready) []agent.Checkout {
	var out []agent.Checkout
	for _, o := range ready.Others {
		out = append(out, agent.Checkout{BaseCommit: o.BaseCommit, Branch: o.Branch})
	}
	return out
}

// reachRequest returns the additional repositories that the agent's
// repositories ask git to fetch, at the commits from which the work started.
func (f *Fleet) reachRequest(state *agent.State, e environment.Environment) gateway.ReachRequest {
	w := gateway.ReachRequest{Named: e.RepositoryDependencies, Allow: f.Dependencies, Ruled: f.Dependencies != nil, May: func(ctx context.Context, url string) bool {
		return f.mayReach(ctx, state.Agent.UserID, url) == nil
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

// grant returns the rights of git in the machine.
func (w *Work) grant(h *readyMachine, state *agent.State, branches []string) gateway.Grant {
	g := gateway.Grant{
		AgentID: state.Agent.ID, RunID: state.Run.ID,
		Credential: w.fleet.token("git", state.Run.ID),
		Repos:      h.reads,
		Push:       map[string]string{},
		Existing:   state.Agent.WorkOnCurrentBranch,
		AllowForce: !state.Agent.WorkOnCurrentBranch,
		Secrets:    w.fleet.SecretsOf(state.Agent.ID),
	}
	for n, repo := range state.Agent.Repos {
		if state.Review != nil { // a reviewer only reads
			g.Repos = append(slices.Clip(g.Repos), repo.URL)
			continue
		}
		g.Push[repo.URL] = branches[n]
		if state.Checkout(n).Pushed {
			g.Pushed = append(g.Pushed, repo.URL)
		}
	}
	return g
}

// maxDiff is the maximum size of a diff, in bytes.
const maxDiff = 4 << 20

// Diff returns the agent's changes: from its running machine, or else from its
// pushed branches. If there are several repositories, each diff is preceded by
// a line with the repository's URL.
func (f *Fleet) Diff(ctx context.Context, agentID string) (diff string, truncated bool, err error) {
	state, err := f.State(ctx, agentID)
	if err != nil {
		return "", false, err
	}
	var all strings.Builder
	for n, repo := range state.Agent.Repos {
		one, cut, err := f.diffOf(ctx, state, n)
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

func (f *Fleet) diffOf(ctx context.Context, state *agent.State, n int) (diff string, truncated bool, err error) {
	was := state.Checkout(n)
	w := f.workOn(state.Agent.ID)
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
		err := f.withRunningMachine(ctx, state, func(conn *pod.Conn) (err error) {
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
	diff, truncated, err = f.Gateway.Diff(ctx, state.Agent.Repos[n].URL, was.BaseCommit, was.Branch, maxDiff)
	return redact.New(f.SecretsOf(state.Agent.ID)).String(diff), truncated, err
}
