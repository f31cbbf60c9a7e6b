package checkout

import (
	"context"
	"strings"
)

// Adopt makes a clone that was made for another this caller's: it is brought up
// to date with the remote and the branch is checked out, as Make would have it.
// What git does not track stays, since that is what the clone is kept for. It
// may be called again where it failed. Errors are [*Failure] where git refused.
func (r *Repository) Adopt(ctx context.Context, spec Spec) (State, error) {
	if err := spec.check(); err != nil {
		return State{}, err
	}
	if _, err := r.git(ctx, quickLimit, "remote", "set-url", "origin", spec.URL); err != nil {
		return State{}, err
	}
	if _, err := r.git(ctx, localLimit, "fetch", "--quiet", "--prune", "--tags", "--force", "origin", "+refs/heads/*:refs/remotes/origin/*"); err != nil {
		return State{}, err
	}
	if spec.Ref == "" {
		if _, err := r.git(ctx, localLimit, "remote", "set-head", "origin", "--auto"); err != nil {
			return State{}, err
		}
		name, err := r.git(ctx, quickLimit, "symbolic-ref", "--short", "refs/remotes/origin/HEAD")
		if err != nil {
			return State{}, err
		}
		spec.Ref = strings.TrimPrefix(strings.TrimSpace(name), "origin/")
	}
	start, _, err := r.start(ctx, spec.Ref)
	if err != nil {
		return State{}, err
	}
	if start != "" {
		// Files whose times alone have changed are not written again: what was built of
		// them stays as new as it is.
		if _, err := r.git(ctx, localLimit, "update-index", "-q", "--refresh"); err != nil {
			return State{}, err
		}
		// What is in the way, of the one before, gives way.
		if _, err := r.git(ctx, localLimit, "checkout", "--quiet", "--force", "--detach", start); err != nil {
			return State{}, err
		}
	}
	state, err := r.branch(ctx, spec)
	if err != nil {
		return State{}, err
	}
	return state, r.remember(state)
}
