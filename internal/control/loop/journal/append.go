package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/store"
)

// Delays between retries while the store is unreachable.
const (
	firstStorePause = 100 * time.Millisecond
	maxStorePause   = 2 * time.Second
)

// storeAway reports whether an error of the store is temporary. Such writes are
// retried, so that a run survives an outage of its store.
func storeAway(err error) bool {
	return errors.Is(err, store.ErrUnreachable) || errors.Is(err, store.ErrUnknown) || errors.Is(err, store.ErrFull)
}

// errEnded is the error of an append after the run's last event.
var errEnded = errors.New("the run has ended; its journal is closed")

// patiently retries do while the store is unreachable. If ctx ends first, it
// returns the cause of ctx.
func (r *Recorder) patiently(ctx context.Context, do func() error) error {
	for wait := firstStorePause; ; wait = min(2*wait, maxStorePause) {
		err := do()
		if err == nil || !storeAway(err) || ctx.Err() != nil {
			return err
		}
		if wait == firstStorePause {
			r.log.Warn("the store is unreachable; the run waits", "agent", r.agentID, "error", err)
		}
		if err := Pause(ctx, wait); err != nil {
			return err
		}
	}
}

// read returns up to readBatch events after the given event number.
func (r *Recorder) read(ctx context.Context, after int64) (events []agent.Event, err error) {
	err = r.patiently(ctx, func() (err error) {
		events, err = r.store.Read(ctx, r.agentID, after, readBatch)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read journal of %s: %w", r.agentID, err)
	}
	return events, nil
}

// Wait returns nil once the journal may have grown past head.
func (r *Recorder) Wait(ctx context.Context, head int64) error {
	err := r.patiently(ctx, func() error { return r.store.Wait(ctx, r.agentID, head) })
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// next starts the next run if a prompt is queued. The caller holds r.turn.
func (r *Recorder) next(ctx context.Context) (events []agent.Event, err error) {
	err = r.patiently(ctx, func() (err error) {
		events, err = store.Next(ctx, r.store, r.state.Agent)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the queue of %s: %w", r.agentID, err)
	}
	return events, nil
}

// hasEnded reports whether the run has ended. The caller holds r.turn or r.mu.
func (r *Recorder) hasEnded() bool {
	return r.closed || r.state.Run.ID != r.runID || r.state.Run.Status.Ended()
}

// Ended reports whether the run has ended.
func (r *Recorder) Ended() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hasEnded()
}

// decide appends the events that choose returns for the current state. If other
// events were appended in between, it calls choose again. If choose returns no
// events, nothing is appended. The caller holds r.turn.
func (r *Recorder) decide(ctx context.Context, choose func() ([]agent.Event, error)) ([]agent.Event, error) {
	for {
		if err := r.catchUp(ctx, 1<<62); err != nil {
			return nil, err
		}
		events, err := choose()
		if err != nil || len(events) == 0 {
			return nil, err
		}
		head := r.state.Agent.Head
		events, err = r.append(ctx, store.Append{AgentID: r.agentID, Owner: r.owner, IfHead: &head, Events: events})
		if !errors.Is(err, store.ErrMoved) {
			return events, err
		}
	}
}

// append writes to the journal, and waits while the store is unreachable. If
// the reply to an append is lost, append searches the journal before it
// retries, so that the events are not written twice. After the run's end it
// writes nothing. The caller holds r.turn.
func (r *Recorder) append(ctx context.Context, a store.Append) (written []agent.Event, err error) {
	if r.hasEnded() {
		return nil, errEnded
	}
	lost, given := false, a.IfHead
	err = r.patiently(ctx, func() error {
		if lost {
			found, head, err := r.find(ctx, a.Events)
			if written = found; err != nil || found != nil {
				return err
			}
			if given == nil {
				a.IfHead = &head // a lost append may still arrive; if it does, this append must fail
			}
		}
		var err error
		written, err = r.store.Append(ctx, a)
		lost = lost || errors.Is(err, store.ErrUnknown)
		switch {
		case !lost || !errors.Is(err, store.ErrMoved):
			return err
		case given == nil:
			return fmt.Errorf("%w: %w", store.ErrUnknown, err)
		}
		// The append whose reply was lost may have changed the journal's head.
		// If it has not, it can no longer take effect.
		found, _, findErr := r.find(ctx, a.Events)
		if written = found; findErr != nil || found != nil {
			return findErr
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("write journal of %s: %w", r.agentID, err)
	}
	return written, nil
}

// find searches the journal for events after the current state. It returns nil
// if they are not there. It also returns the number of the journal's last
// event.
func (r *Recorder) find(ctx context.Context, wanted []agent.Event) (found []agent.Event, head int64, err error) {
	head = r.state.Agent.Head
	var all []agent.Event
	for {
		events, err := r.store.Read(ctx, r.agentID, head, readBatch)
		if err != nil {
			return nil, 0, err
		}
		if all = append(all, events...); len(events) > 0 {
			head = events[len(events)-1].Seq
		}
		if len(events) < readBatch {
			break
		}
	}
	for n := len(wanted); n <= len(all); n++ {
		if some := all[n-len(wanted) : n]; slices.EqualFunc(some, wanted, sameEvent) {
			return some, head, nil
		}
	}
	return nil, head, nil
}

// sameEvent reports whether two events of a run have the same content.
func sameEvent(a, b agent.Event) bool {
	kindA, dataA, errA := agent.Encode(a.Body)
	kindB, dataB, errB := agent.Encode(b.Body)
	return errA == nil && errB == nil && a.RunID == b.RunID && kindA == kindB && bytes.Equal(dataA, dataB)
}
