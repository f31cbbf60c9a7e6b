package checkout

import (
	"context"
	"strings"

	"aloft/internal/gitcmd"
)

// Committed is the result of Commit.
type Committed struct {
	Commit string // HEAD; "" if the repository has no commits
	Made   bool
	Note   string // why the project's hooks rejected the commit or were not run; "" if they passed
}

// Commit commits all changes in the clone, and runs the project's hooks unless
// skipHooks is set. If a hook rejects the commit, the error is a [*Failure]
// with [CodeHookFailed] and the hook's output. Commit removes a lock that a
// killed git left behind. It works on a damaged clone as long as the objects
// are intact.
func (r *Repository) Commit(ctx context.Context, message string, skipHooks bool) (Committed, error) {
	if strings.TrimSpace(message) == "" {
		return Committed{}, &Failure{CodeInternal, "a commit needs a message"}
	}
	git, err := r.prepareOwn()
	if err != nil {
		return Committed{}, err
	}
	at, err := git.position(ctx)
	if err != nil {
		return Committed{}, err
	}
	tree, changed, err := git.changed(ctx, at.head)
	if err == nil && !skipHooks {
		err = r.unfiltered(ctx, git.filtered)
	}
	if err != nil || !changed {
		return Committed{Commit: at.head}, err
	}
	hooks, note, err := r.hooks(ctx, "pre-commit", "prepare-commit-msg", "commit-msg", "post-commit")
	if err != nil {
		return Committed{}, err
	}
	if hooks && skipHooks {
		note = "the project's commit hooks rejected the commit"
	}
	if hooks && !skipHooks {
		if err := r.commitHooked(ctx, message); err != nil {
			return Committed{}, err
		}
		now, err := git.position(ctx)
		if err != nil {
			return Committed{}, err
		}
		// Hooks may have changed files after staging, or moved HEAD.
		if tree, changed, err = git.changed(ctx, now.head); err != nil {
			return Committed{}, err
		}
		if !changed {
			return Committed{Commit: now.head, Made: now.head != at.head}, nil
		}
		at, note = now, "the project's commit hooks left changes behind"
	}
	commit, err := git.commitTree(ctx, at, tree, message)
	return Committed{Commit: commit, Made: err == nil, Note: note}, err
}

// changed stages the working tree, and reports whether it differs from head.
func (g *ownGit) changed(ctx context.Context, head string) (tree string, changed bool, err error) {
	if tree, err = g.stage(ctx, head, ""); err != nil {
		return "", false, err
	}
	if head == "" {
		return tree, tree != emptyTree, nil
	}
	was, err := g.run(ctx, "rev-parse", "--verify", "--end-of-options", head+"^{tree}")
	return tree, was != tree, err
}

// commitHooked commits the staged changes in the same way as the user would:
// with the project's hooks and the clone's configuration.
func (r *Repository) commitHooked(ctx context.Context, message string) error {
	return r.unlocked(ctx, func() error {
		return r.hooked(ctx, Command{
			Args:  gitcmd.AsUser("-c", "commit.gpgSign=false", "commit", "--quiet", "--file=-"),
			Stdin: message,
		})
	})
}
