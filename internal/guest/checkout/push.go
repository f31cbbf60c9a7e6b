package checkout

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// pushLimit is the timeout of a push, which may have to wait until the gateway
// is reachable again.
const pushLimit = 10 * time.Minute

// Pushed is the result of Push.
type Pushed struct {
	Commit string // the commit that was pushed
	Note   string // why the project's pre-push hook rejected the push or was not run; "" if it passed
}

// Push pushes HEAD to the branch of that name at the repository's URL. It runs
// the project's pre-push hook first, unless skipHooks is set. If the hook
// rejects the push, the error is a [*Failure] with [CodeHookFailed] and the
// hook's output.
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
		note = "the project's pre-push hook rejected the push"
	}
	if has && !skipHooks && remote != at.head {
		if err := r.prePush(ctx, at.head, branch, remote); err != nil {
			return Pushed{}, err
		}
	}
	push := Command{Args: []string{"push", "--quiet", "--", r.URL, at.head + ":refs/heads/" + branch}}
	if _, err := git.startWithin(ctx, pushLimit, maxOutput, push); err != nil {
		return Pushed{}, err
	}
	// git updates the tracking branch only if it pushes to a named remote.
	_, _ = git.run(ctx, "update-ref", tracking, at.head) // informs the agent; the push itself has succeeded
	return Pushed{at.head, note}, nil
}

func (r *Repository) toPush(ctx context.Context, branch string) (*ownGit, position, error) {
	if branch == "" || strings.HasPrefix(branch, "-") || strings.ContainsFunc(branch, isControl) {
		return nil, position{}, &Failure{CodeInternal, fmt.Sprintf("%q cannot be the name of a branch", branch)}
	}
	git, err := r.prepareOwn()
	if err != nil {
		return nil, position{}, err
	}
	at, err := git.position(ctx)
	if err == nil && at.head == "" {
		err = &Failure{CodeNoCommit, "there is no commit to push"}
	}
	return git, at, err
}

// pushLarge uploads the large files (Git LFS) that the commits refer to. It
// runs before the push, since the branch would be useless without them.
func (g *ownGit) pushLarge(ctx context.Context, head string) error {
	if _, err := os.Lstat(filepath.Join(g.commonDir, "lfs/objects")); err != nil {
		return nil //nolint:nilerr // git-lfs has never stored a file here
	}
	if err := g.setHead(head); err != nil {
		return err
	}
	_, err := g.run(ctx, "lfs", "push", "origin", "HEAD")
	return err
}

// Bundle writes the commits that have not been pushed to a file of the user: a git
// bundle whose only ref is HEAD. Bundle reports whether there were any commits to write.
func (r *Repository) Bundle(ctx context.Context, file string) (bool, error) {
	git, err := r.prepareOwn()
	if err != nil {
		return false, err
	}
	at, err := git.position(ctx)
	if err != nil {
		return false, err
	}
	return git.bundle(ctx, at.head, file)
}
