package schedule

import (
	"cmp"
	"context"
	"maps"
	"path"
	"slices"
	"strings"

	"aloft/internal/agent"
	"aloft/internal/fault"
	"aloft/internal/tool"
)

// attribution returns which runs last changed the lines of files. It is
// [loop.Tools.Attribution].
func (s *Scheduler) attribution(ctx context.Context, state *agent.State, names []string) ([]tool.Attributed, error) {
	folders := agent.Folders(state.Agent.Repos)
	if len(folders) == 0 || len(state.Agent.Repos) == 0 {
		return nil, fault.Invalid("you work on no repository")
	}
	byRepo := make([][]string, len(folders))
	for _, name := range names {
		at := slices.IndexFunc(folders, func(folder string) bool {
			return strings.HasPrefix(path.Join(agent.Workspace, name), folder+"/")
		})
		if at < 0 {
			return nil, fault.Invalid("%q is in none of your repositories", name)
		}
		byRepo[at] = append(byRepo[at], strings.TrimPrefix(path.Join(agent.Workspace, name), folders[at]+"/"))
	}
	var out []tool.Attributed
	for n, repo := range state.Agent.Repos {
		was := state.Checkout(n)
		base, tip := "", was.BaseCommit
		if was.Pushed {
			tip = "refs/heads/" + was.Branch
		}
		if len(names) == 0 {
			base = was.BaseCommit
		} else if len(byRepo[n]) == 0 {
			continue
		}
		if tip == "" || len(names) == 0 && !was.Pushed {
			continue // nothing was pushed
		}
		blamed, err := s.Gateway.Blame(ctx, repo.URL, base, tip, byRepo[n])
		if err != nil {
			return nil, err
		}
		folder := strings.TrimPrefix(strings.TrimPrefix(folders[n], agent.Workspace), "/")
		for _, name := range slices.Sorted(maps.Keys(blamed.Files)) {
			for _, l := range blamed.Files[name] {
				out = append(out, tool.Attributed{
					Path: path.Join(folder, name), First: l.First, Last: l.Last, Commit: l.Commit[:min(12, len(l.Commit))], AgentID: l.Author.Agent, RunID: l.Author.Run,
				})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b tool.Attributed) int { return cmp.Or(cmp.Compare(a.Path, b.Path), a.First-b.First) })
	return out, nil
}
