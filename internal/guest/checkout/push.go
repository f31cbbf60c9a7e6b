package checkout

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// pushLimit bounds a push, which may wait for the gateway to come back.
const pushLimit = 10 * time.Minute

// Push pushes HEAD to the branch of that name at origin, and returns the
// commit. A hook of the repository that refuses is passed over: the gateway
// is what judges a push.
func (r *Repository) Push(ctx context.Context, branch string) (string, error) {
	if branch == "" || strings.HasPrefix(branch, "-") || strings.ContainsFunc(branch, isControl) {
		return "", &Failure{CodeInternal, fmt.Sprintf("%q cannot be the name of a branch", branch)}
	}
	head, err := r.head(ctx)
	if err != nil {
		return "", err
	}
	if head == "" {
		return "", &Failure{CodeNoCommit, "there is no commit to push"}
	}
	if err := r.pushLarge(ctx); err != nil {
		return "", err
	}
	err = r.pushOnce(ctx, head, branch)
	if f, ok := errors.AsType[*Failure](err); ok && f.Code == CodeInternal {
		err = r.pushOnce(ctx, head, branch, "--no-verify")
	}
	return head, err
}

// pushLarge uploads the large files that the commits name (Git LFS), before a
// branch is pushed that would be of no use without them.
func (r *Repository) pushLarge(ctx context.Context) error {
	folder, err := r.git(ctx, quickLimit, "rev-parse", "--path-format=absolute", "--git-path", "lfs/objects")
	if err != nil {
		return err
	}
	if _, err := os.Lstat(strings.TrimSuffix(folder, "\n")); err != nil {
		return nil //nolint:nilerr // git-lfs has never kept one here
	}
	_, err = r.git(ctx, pushLimit, "lfs", "push", "origin", "HEAD")
	return err
}

func (r *Repository) pushOnce(ctx context.Context, head, branch string, args ...string) error {
	words := newTail(nil)
	args = append([]string{"git", "push", "--quiet"}, args...)
	exit, err := r.limited(ctx, pushLimit, Command{
		Args: append(args, "origin", head+":refs/heads/"+branch),
		Dir:  r.Path, Env: gitEnv, Stdout: io.Discard, Stderr: words,
	})
	if err != nil {
		return err
	}
	if exit != 0 {
		return r.failure(words)
	}
	return nil
}
