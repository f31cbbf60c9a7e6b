package loop

import (
	"context"
	"errors"
	"strings"
	"sync"

	"aloft/internal/agent"
	"aloft/internal/fault"
)

// place is the machine in which all conversations of the run work.
type place struct {
	sync.Mutex       // held while a machine is made ready
	hands      Hands // nil until the machine is needed, and after it was lost
}

// maxLost bounds how often a run gets a machine again, so that a task that
// kills its machine ends.
const maxLost = 5

// reach makes the machine ready, and has the conversation work in it.
func (t *talk) reach(ctx context.Context) error {
	t.place.Lock()
	defer t.place.Unlock()
	for t.place.hands == nil {
		s := t.rec.snapshot()
		h, err := t.Machine(ctx, s, func(ctx context.Context, bodies ...agent.Body) error {
			err := t.rec.record(ctx, bodies...)
			*s = *t.rec.snapshot()
			return err
		})
		switch {
		case errors.Is(err, ErrMachineLost):
			if err := t.noteLost(ctx, err); err != nil {
				return err
			}
		case err != nil:
			return err
		default:
			err := t.forgetOthers(ctx, h)
			if errors.Is(err, ErrMachineLost) {
				err = t.noteLost(ctx, err)
			} else if err == nil {
				t.place.hands = h
			}
			if err != nil {
				return err
			}
		}
	}
	t.hands, t.lacks = t.place.hands, t.place.hands.Lacking()
	return nil
}

// inPlace reports whether the conversation works in the run's machine, as far as is
// known without waiting.
func (t *talk) inPlace() bool {
	if t.hands == nil || !t.place.TryLock() {
		return false
	}
	defer t.place.Unlock()
	return t.place.hands == t.hands
}

// forgetOthers has the machine drop the calls that it knows and nobody waits for:
// a loop before this one died after it had journaled their results. Else each
// takes one of the machine's places for as long as that is up.
func (t *talk) forgetOthers(ctx context.Context, h Hands) error {
	known := h.Known()
	if len(known) == 0 {
		return nil
	}
	s := t.rec.snapshot() // after the machine was asked: a call that began before that is in it
	for _, id := range known {
		if c := s.Find(strings.TrimSuffix(id, downloadSuffix)); c != nil && c.Result == nil {
			continue
		}
		if err := h.Drop(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// lost lets go of the machine, since it is gone. The first conversation that finds
// it so records that.
func (t *talk) lost(ctx context.Context, cause error) error {
	_ = t.acknowledged() // what the machine knows is gone with it
	t.place.Lock()
	defer t.place.Unlock()
	was := t.hands
	t.hands = nil
	if t.place.hands != was {
		return nil
	}
	t.place.hands = nil
	return t.noteLost(ctx, cause)
}

func (t *talk) noteLost(ctx context.Context, cause error) error {
	if t.rec.lost() >= maxLost {
		return fault.Unavailable("the machine was lost %d times in this run", maxLost).Named("machine_lost").
			Hint("something in the task may be killing it: look at the last tool calls with `aloft agent logs`").Because(cause)
	}
	return t.rec.record(ctx, &agent.MachineLost{MachineID: t.rec.snapshot().MachineID, Reason: "the connection to it ended"})
}
