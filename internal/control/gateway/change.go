package gateway

import (
	"context"

	"aloft/internal/control/mirror"
	"aloft/internal/fault"
)

// Change holds the changes of a pull request.
type Change struct {
	Base string // the merge base
	Text []byte // output of git diff --binary --full-index
}

// Change returns the changes from the merge base of base and tip to tip. base
// is a branch, tag or commit. tip is a full commit id; it need not be on a
// branch, so it may come from a fork's pull request. Changes of more than max
// bytes are a fault. Other errors are those of [Gateway.Check].
func (g *Gateway) Change(ctx context.Context, repoURL, base, tip string, max int) (Change, error) {
	r, m, err := g.open(repoURL)
	if err != nil {
		return Change{}, err
	}
	if _, err := m.Refresh(ctx, r); err != nil {
		return Change{}, err
	}
	start, err := m.Resolve(ctx, r, base)
	if err != nil {
		return Change{}, err
	}
	end, err := m.Resolve(ctx, r, tip)
	if err != nil {
		return Change{}, err
	}
	if start.Commit == "" || end.Commit != tip {
		return Change{}, fault.NotFound("%s has no commit %q", r, mirror.Plain(tip)).Named(mirror.CodeRefNotFound)
	}
	from, text, err := m.Change(ctx, start.Commit, end.Commit, max)
	return Change{from, text}, err
}
