package forge

import (
	"context"

	"aloft/internal/control/keylock"
	"aloft/internal/fault"
)

// Opener opens each pull request at most once: concurrent calls for the same
// pull request take turns, because some hosts would open two. The zero Opener
// is ready to use and safe for concurrent use.
type Opener struct {
	turns keylock.Locks[NewPullRequest] // by the fields that distinguish pull requests
}

// Open calls find to look for an open pull request from n's head to n's base,
// and create if there is none. If create is refused, it calls find again,
// because somebody else may have opened the pull request.
func (o *Opener) Open(ctx context.Context, n NewPullRequest, find func() ([]PullRequest, error), create func() (PullRequest, error)) (PullRequest, error) {
	if err := n.Check(); err != nil {
		return PullRequest{}, err
	}
	done, err := o.turns.Lock(ctx, NewPullRequest{Repo: n.Repo, Head: n.Head, Base: n.Base})
	if err != nil {
		return PullRequest{}, err
	}
	defer done()
	there := func() (PullRequest, bool, error) {
		all, err := find()
		for _, p := range all {
			if p.State == Open && p.Base == n.Base {
				return p, true, nil
			}
		}
		return PullRequest{}, false, err
	}
	if p, ok, err := there(); ok || err != nil {
		return p, err
	}
	p, err := create()
	if fault.Is(err, fault.KindConflict) || fault.Is(err, fault.KindInvalid) {
		if p, ok, again := there(); ok && again == nil {
			return p, nil
		}
	}
	return p, err
}
