package forge

import (
	"context"
	"sync"

	"aloft/internal/fault"
)

// Opener opens each pull request at most once: concurrent calls for the same
// pull request take turns, because some hosts would open two. The zero Opener
// is ready to use and safe for concurrent use.
type Opener struct {
	mu   sync.Mutex
	busy map[NewPullRequest]chan struct{} // by the fields that distinguish pull requests
}

// Open calls find to look for an open pull request from n's head to n's base,
// and create if there is none. If create is refused, it calls find again, since
// somebody else may have been first.
func (o *Opener) Open(ctx context.Context, n NewPullRequest, find func() ([]PullRequest, error), create func() (PullRequest, error)) (PullRequest, error) {
	if err := n.Check(); err != nil {
		return PullRequest{}, err
	}
	done, err := o.turn(ctx, NewPullRequest{Repo: n.Repo, Head: n.Head, Base: n.Base})
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

func (o *Opener) turn(ctx context.Context, key NewPullRequest) (done func(), err error) {
	for {
		o.mu.Lock()
		before, taken := o.busy[key]
		if !taken {
			mine := make(chan struct{})
			if o.busy == nil {
				o.busy = map[NewPullRequest]chan struct{}{}
			}
			o.busy[key] = mine
			o.mu.Unlock()
			return func() {
				o.mu.Lock()
				delete(o.busy, key)
				o.mu.Unlock()
				close(mine)
			}, nil
		}
		o.mu.Unlock()
		select {
		case <-before:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
