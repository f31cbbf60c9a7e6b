package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"aloft/internal/control/store"
)

// settleWithin is how long a loop whose context has ended keeps trying to
// journal results that it already has.
const settleWithin = 30 * time.Second

// errUnsettled is the cause of a write that is aborted after [settleWithin].
var errUnsettled = fmt.Errorf("cannot write to the journal within %v: %w", settleWithin, store.ErrUnreachable)

// Outliving returns a context for journaling results after ctx has ended. The
// new context ends [settleWithin] after ctx.
func Outliving(ctx context.Context) (context.Context, context.CancelFunc) {
	out, end := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		late := time.NewTimer(settleWithin)
		defer late.Stop()
		select {
		case <-late.C:
			end(errUnsettled)
		case <-out.Done():
		}
	})
	return out, func() {
		stop()
		end(nil)
	}
}

// LeavesOpen reports whether a journal error leaves the run open, for another
// server or for later. Any other error ends the run.
func LeavesOpen(err error) bool {
	return errors.Is(err, store.ErrLeaseLost) || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrClosed) || storeAway(err)
}

// Pause waits, unless ctx ends first.
func Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
