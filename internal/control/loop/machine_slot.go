package loop

import (
	"context"
	"errors"
	"strings"
	"sync"

	"aloft/internal/agent"
	"aloft/internal/control/loop/offer"
	"aloft/internal/control/loop/remote"
	"aloft/internal/fault"
)

// machineSlot is the machine in which all conversations of the run work.
type machineSlot struct {
	sync.Mutex                // held while the machine is made ready
	machine    remote.Machine // nil until the machine is needed, and after it was lost
}

// maxLost is how often a run may lose its machine and get a new one. The limit
// ends a task that kills its machine again and again.
const maxLost = 5

// reach starts or connects to the machine, and attaches the conversation to it.
func (t *thread) reach(ctx context.Context) error {
	t.slot.Lock()
	defer t.slot.Unlock()
	for t.slot.machine == nil {
		s := t.rec.Snapshot()
		h, err := t.Machine(ctx, s, func(ctx context.Context, bodies ...agent.Body) error {
			err := t.rec.Record(ctx, bodies...)
			*s = *t.rec.Snapshot()
			return err
		})
		switch {
		case errors.Is(err, remote.ErrLost):
			if err := t.noteLost(ctx, err); err != nil {
				return err
			}
		case err != nil:
			return err
		default:
			err := t.forgetOthers(ctx, h)
			if errors.Is(err, remote.ErrLost) {
				err = t.noteLost(ctx, err)
			} else if err == nil {
				t.slot.machine = h
				err = t.rules.PlaceSkills(ctx, t.rec.Snapshot().Agent, h)
			}
			if err != nil {
				return err
			}
		}
	}
	t.machine, t.lacks = t.slot.machine, t.slot.machine.Lacking()
	return nil
}

// hasCurrentMachine reports whether the conversation is connected to the run's current
// machine. If that cannot be known without waiting, it returns false.
func (t *thread) hasCurrentMachine() bool {
	if t.machine == nil || !t.slot.TryLock() {
		return false
	}
	defer t.slot.Unlock()
	return t.slot.machine == t.machine
}

// forgetOthers makes the machine drop calls that nobody waits for. They remain
// if an earlier loop died after journaling their results and before
// acknowledging them. Each would occupy a call slot for as long as the machine
// runs.
func (t *thread) forgetOthers(ctx context.Context, h remote.Machine) error {
	known := h.Known()
	if len(known) == 0 {
		return nil
	}
	s := t.rec.Snapshot() // read after Known, so that it contains every call that the machine knows
	for _, id := range known {
		if c := s.Find(strings.TrimSuffix(id, offer.DownloadSuffix)); c != nil && c.Result == nil {
			continue
		}
		if err := h.Drop(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// forgetMachine disconnects from a machine that is gone. The first conversation that
// notices records the loss.
func (t *thread) forgetMachine(ctx context.Context, cause error) error {
	_ = t.acknowledged() // the acknowledgements are lost with the machine
	t.slot.Lock()
	defer t.slot.Unlock()
	was := t.machine
	t.machine = nil
	if t.slot.machine != was {
		return nil
	}
	t.slot.machine = nil
	return t.noteLost(ctx, cause)
}

func (t *thread) noteLost(ctx context.Context, cause error) error {
	if err := t.noteShortages(ctx, ""); err != nil {
		return err
	}
	if t.rec.Losses() >= maxLost {
		if text, ok := t.ranOutOfDisk(); ok {
			return fault.Exhausted("%s", text).Named("disk_limit").
				Hint("send a follow-up that says what to remove, or raise machine.disk_bytes").Because(cause)
		}
		return fault.Unavailable("the machine was lost %d times in this run", maxLost).Named("machine_lost").
			Hint("something in the task may be killing it: check the last tool calls with `aloft agent logs`").Because(cause)
	}
	return t.rec.Record(ctx, &agent.MachineLost{MachineID: t.rec.Snapshot().MachineID, Reason: "the connection was lost"})
}
