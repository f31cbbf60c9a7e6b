package adapter

import (
	"bytes"
	"cmp"
	"context"
	"time"

	"aloft/internal/agent"
	environmentapi "aloft/internal/control/api/environments"
	"aloft/internal/control/build"
	"aloft/internal/control/fleet"
	"aloft/internal/control/layer"
	"aloft/internal/environment"
	"aloft/internal/secret"
)

// SetUps turns machines that people have set up into environments.
type SetUps struct {
	Fleet   *fleet.Fleet
	Builder *build.Builder
}

var _ environmentapi.SetUps = SetUps{}

// maxProposeFile limits how many bytes are read of each repository file on
// which a proposal is based.
const maxProposeFile = 256 << 10

// Snapshot implements [environmentapi.SetUps].
func (s SetUps) Snapshot(ctx context.Context, a agent.Agent) (id string, p environment.Proposal, err error) {
	typed, err := s.Fleet.SetUpHistory(ctx, a.ID)
	if err != nil {
		return "", p, err
	}
	url := a.Repos[0].URL
	id = layer.NewID(layer.Snapshot)
	record := environment.Snapshot{ID: id, UserID: a.UserID, Repo: secret.Repo(url), AgentID: a.ID, CreatedAt: time.Now().UTC()}
	if err := s.Builder.SaveSnapshot(ctx, record, func(ctx context.Context, id string) error { return s.Fleet.Snapshot(ctx, a.ID, id) }); err != nil {
		return "", p, err
	}
	if a.Env.Preset == agent.VMSetupHelper {
		if path, _, text, err := s.Proposed(ctx, a); err == nil && path != "" {
			if text, err = environment.WithSnapshot(text, id); err == nil {
				return id, environment.Proposal{Text: text, Why: []string{"snapshot: the disk as the agent left it", "the other keys: from " + path + ", as the agent proposes it"}}, nil
			}
		}
	}
	files, err := s.Builder.Exists(ctx, url, "", environment.ProposeFiles, maxProposeFile)
	if err != nil {
		files = nil // keep the snapshot even if the proposal is incomplete
	}
	return id, environment.Propose(environment.Known{Snapshot: id, Files: files, Typed: typed}), nil
}

// Try implements [environmentapi.SetUps].
func (s SetUps) Try(ctx context.Context, a agent.Agent, text string, tell func(string)) (environment.Record, environment.Findings, error) {
	return s.Builder.Draft(ctx, a.Repos[0].URL, a.UserID, text, tell)
}

// Commit implements [environmentapi.SetUps]. It replaces the environment file that the repository
// already has, if any.
func (s SetUps) Commit(ctx context.Context, a agent.Agent, text string) (path, branch, commit string, err error) {
	found, err := s.Builder.Exists(ctx, a.Repos[0].URL, "", environment.Files, environment.MaxSize)
	if err != nil {
		return "", "", "", err
	}
	if path = firstOf(found); path == "" {
		path = environment.Files[0]
	}
	branch, commit, err = s.Fleet.CommitFile(ctx, a.ID, path, []byte(text), "Set up the environment of agents")
	return path, branch, commit, err
}

// firstOf returns the environment file that takes precedence, or "" if there is none.
func firstOf(found map[string][]byte) string {
	for _, name := range environment.Files {
		if _, ok := found[name]; ok {
			return name
		}
	}
	return ""
}

// Proposed implements [environmentapi.SetUps]. It returns the environment that the agent has
// pushed, if it differs from the one that the agent started with.
func (s SetUps) Proposed(ctx context.Context, a agent.Agent) (path, branch, text string, err error) {
	url := a.Repos[0].URL
	if branch, err = s.Fleet.PushedBranch(ctx, a.ID); err != nil || branch == "" {
		return "", "", "", err
	}
	theirs, err := s.Builder.Exists(ctx, url, branch, environment.Files, environment.MaxSize)
	if err != nil {
		return "", "", "", err
	}
	began, err := s.Builder.Exists(ctx, url, cmp.Or(a.Origin, a.Repos[0].StartingRef), environment.Files, environment.MaxSize)
	if err != nil {
		return "", "", "", err
	}
	path = firstOf(theirs)
	if was, ok := began[path]; path == "" || ok && bytes.Equal(was, theirs[path]) {
		return "", "", "", nil
	}
	return path, branch, string(theirs[path]), nil
}
