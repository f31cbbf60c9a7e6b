package checkout

import "context"

// BranchOff takes over a clone of another owner and continues from its current
// state: the tree and the index stay as they are, and Branch is created at the
// commit that is checked out. It may be called again after a failure.
func (r *Repository) BranchOff(ctx context.Context, spec Spec) (State, error) {
	if err := spec.check(); err != nil {
		return State{}, err
	}
	state, err := r.recall()
	if err != nil {
		return State{}, err
	}
	state.Owner = spec.Owner
	if spec.Branch != "" {
		state.Branch = spec.Branch
		ref := "refs/heads/" + spec.Branch
		git, err := r.prepareOwn()
		if err != nil {
			return State{}, err
		}
		at, err := git.position(ctx)
		if err != nil {
			return State{}, err
		}
		if at.head != "" {
			if _, err := git.run(ctx, "update-ref", ref, at.head); err != nil {
				return State{}, err
			}
		}
		// Do not use git checkout, which refuses to run during a merge.
		if err := git.setCloneHead(ctx, "ref: "+ref); err != nil {
			return State{}, err
		}
	}
	return state, r.remember(state)
}
