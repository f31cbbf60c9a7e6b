package checkout

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// Adopt takes over a clone that was made for another owner: it updates the
// clone from the remote and checks the branch out, as Make would. Untracked
// files stay, because they are the reason to keep the clone. The clone's
// configuration stays too, but no program that it names is run here. Adopt may
// be called again after a failure. If git refuses, the error is a [*Failure].
func (r *Repository) Adopt(ctx context.Context, spec Spec) (State, error) {
	if err := spec.check(); err != nil {
		return State{}, err
	}
	git, err := r.prepareOwn()
	if err != nil {
		return State{}, err
	}
	fetch := func(refs ...string) error {
		args := []string{"fetch", "--quiet", "--prune", "--tags", "--force", "--no-write-fetch-head", "--end-of-options", spec.URL}
		_, err := git.run(ctx, append(args, refs...)...)
		return err
	}
	if err := fetch("+refs/heads/*:refs/remotes/origin/*"); err != nil {
		return State{}, err
	}
	if spec.Ref == "" {
		if spec.Ref, err = git.defaultBranch(ctx, spec.URL); err != nil {
			return State{}, err
		}
	}
	start, name, err := find(ctx, spec.Ref, git.commit, func() error { return fetch(spec.Ref) })
	if err != nil {
		return State{}, err
	}
	state := State{Path: r.Path, Base: start, Branch: spec.Branch, Owner: spec.Owner, Whole: true, Modules: true}
	if state.Branch == "" || state.Branch == plain(spec.Ref) {
		state.Branch = name
	}
	tracks := false
	if state.Branch != "" {
		remote, err := git.commit(ctx, "refs/remotes/origin/"+state.Branch)
		if err != nil {
			return State{}, err
		}
		if remote != "" {
			if state.Branch != name && !spec.Resume {
				return State{}, branchTaken(state.Branch, remote)
			}
			if fork, err := git.run(ctx, "merge-base", start, remote); err == nil {
				state.Base = fork
			}
			tracks, start = true, remote
		}
	}
	if err := git.adopt(ctx, spec.URL, state.Branch, start, tracks); err != nil {
		return State{}, err
	}
	return state, r.remember(state)
}

func branchTaken(branch, at string) *Failure {
	return &Failure{CodeBranchTaken, fmt.Sprintf("branch %s is on the remote already, at %.12s", branch, at)}
}

// defaultBranch asks the remote for its default branch, and records it in the
// clone.
func (g *ownGit) defaultBranch(ctx context.Context, url string) (string, error) {
	out, err := g.run(ctx, "ls-remote", "--symref", "--end-of-options", url, "HEAD")
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(out, "\n")
	branch, ok := strings.CutPrefix(strings.TrimSuffix(line, "\tHEAD"), "ref: refs/heads/")
	if !ok {
		return "", &Failure{CodeRefNotFound, "the repository names no default branch"}
	}
	_, err = g.run(ctx, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/"+branch)
	return branch, err
}

// adopt checks a commit out over the existing files of the clone, on the
// branch, or detached if branch is empty. It ends an unfinished merge.
func (g *ownGit) adopt(ctx context.Context, url, branch, commit string, tracks bool) error {
	// Refresh the index, so that files of which only the times differ are not
	// rewritten: build outputs stay newer than their sources.
	_, err := g.run(ctx, "update-index", "-q", "--refresh")
	if _, refused := errors.AsType[*Failure](err); err != nil && !refused {
		return err
	}
	// Do not use git checkout: it would move the HEAD of our own git directory.
	if _, err := g.run(ctx, "read-tree", "--reset", "-u", commit); err != nil {
		return err
	}
	head := commit
	settings := [][2]string{{"remote.origin.url", url}}
	if branch != "" {
		head = "ref: refs/heads/" + branch
		if _, err := g.run(ctx, "update-ref", "refs/heads/"+branch, commit); err != nil {
			return err
		}
	}
	if tracks {
		settings = append(settings, [2]string{"branch." + branch + ".remote", "origin"}, [2]string{"branch." + branch + ".merge", "refs/heads/" + branch})
	}
	for _, kv := range settings {
		if _, err := g.run(ctx, "config", "--file", filepath.Join(g.commonDir, "config"), "--replace-all", kv[0], kv[1]); err != nil {
			return err
		}
	}
	if err := g.setCloneHead(ctx, head); err != nil {
		return err
	}
	return g.endMerge(ctx)
}
