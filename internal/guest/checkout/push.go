package checkout

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// pushLimit bounds a push, which may wait for the gateway to come back.
const pushLimit = 10 * time.Minute

// Pushed is what Push did.
type Pushed struct {
	Commit string // that is on the remote
	Note   string // why the project's pre-push hook did not let it pass, or was not run; "" if it did
}

// Push pushes HEAD to the branch of that name at the repository's URL, after the
// project's pre-push hook unless skipHooks. Where that refuses, the error is a
// [*Failure] of [CodeHookFailed] with its words.
func (r *Repository) Push(ctx context.Context, branch string, skipHooks bool) (Pushed, error) {
	git, at, err := r.toPush(ctx, branch)
	if err != nil {
		return Pushed{}, err
	}
	if err := git.pushLarge(ctx, at.head); err != nil {
		return Pushed{}, err
	}
	tracking := "refs/remotes/origin/" + branch
	remote, err := git.commit(ctx, tracking)
	if err != nil {
		return Pushed{}, err
	}
	has, note, err := r.hooks(ctx, "pre-push")
	if err != nil {
		return Pushed{}, err
	}
	if has && skipHooks {
		note = "the project's pre-push hook did not let it pass"
	}
	if has && !skipHooks && remote != at.head {
		if err := r.prePush(ctx, at.head, branch, remote); err != nil {
			return Pushed{}, err
		}
	}
	words := newTail(nil)
	exit, err := r.limited(ctx, pushLimit, Command{
		Args: git.git.Args("push", "--quiet", "--", r.URL, at.head+":refs/heads/"+branch),
		Dir:  r.Path, Env: git.git.Environ(), Clean: true, Stdout: words, Stderr: words,
	})
	if err != nil {
		return Pushed{}, err
	}
	if exit != 0 {
		return Pushed{}, r.failure(words)
	}
	// git does so only where it pushes to a remote by its name.
	_, _ = git.run(ctx, "update-ref", tracking, at.head) // for the agent to see; the push is done
	return Pushed{at.head, note}, nil
}

func (r *Repository) toPush(ctx context.Context, branch string) (*ownGit, position, error) {
	if branch == "" || strings.HasPrefix(branch, "-") || strings.ContainsFunc(branch, isControl) {
		return nil, position{}, &Failure{CodeInternal, fmt.Sprintf("%q cannot be the name of a branch", branch)}
	}
	git, err := r.own()
	if err != nil {
		return nil, position{}, err
	}
	at, err := git.position(ctx)
	if err == nil && at.head == "" {
		err = &Failure{CodeNoCommit, "there is no commit to push"}
	}
	return git, at, err
}

// pushLarge uploads the large files that the commits name (Git LFS), before a
// branch is pushed that would be of no use without them.
func (g *ownGit) pushLarge(ctx context.Context, head string) error {
	if _, err := os.Lstat(filepath.Join(g.commonDir, "lfs/objects")); err != nil {
		return nil //nolint:nilerr // git-lfs has never kept one here
	}
	if err := g.setHead(head); err != nil {
		return err
	}
	_, err := g.run(ctx, "lfs", "push", "origin", "HEAD")
	return err
}

// Bundle writes the commits that are not pushed into file, as the user: a git
// bundle whose one ref is HEAD. It reports whether there are any.
func (r *Repository) Bundle(ctx context.Context, file string) (bool, error) {
	git, err := r.own()
	if err != nil {
		return false, err
	}
	at, err := git.position(ctx)
	if err != nil {
		return false, err
	}
	return git.bundle(ctx, at.head, file)
}
