package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"aloft/internal/control/loop"
	"aloft/internal/control/machine"
	"aloft/internal/control/store"
)

// Remove cancels the agent's run, if this server works on it, and destroys the
// agent's machine.
func (f *Fleet) Remove(ctx context.Context, agentID string) error {
	w := f.workOn(agentID)
	if w != nil {
		w.cancel(loop.ErrCancel)
		select {
		case <-w.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	f.keepLast(ctx, agentID)
	if err := f.destroyOf(ctx, agentID); err != nil {
		return err
	}
	f.given.forget(agentID)
	return nil
}

// destroyOf destroys all machines of an agent.
func (f *Fleet) destroyOf(ctx context.Context, agentID string) error {
	ids, err := f.Runtime.List(ctx)
	if err != nil {
		return fmt.Errorf("list machines: %w", err)
	}
	for _, id := range ids {
		if owner, ok := AgentOf(id); ok && owner == agentID {
			if err := f.destroy(ctx, id); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *Fleet) destroy(ctx context.Context, id string) error {
	m, err := f.Runtime.Open(ctx, id)
	if errors.Is(err, machine.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open machine %s: %w", id, err)
	}
	if err := m.Destroy(ctx); err != nil {
		return fmt.Errorf("destroy machine %s: %w", id, err)
	}
	return nil
}

// sweepEvery is how often a running server looks for machines of deleted or
// archived agents.
const sweepEvery = 5 * time.Minute

// sweepAlways sweeps every [sweepEvery] until ctx ends.
func (f *Fleet) sweepAlways(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f.Sweep(ctx, false)
		}
	}
}

// Sweep destroys the machines of deleted and archived agents: machines left by
// a crashed server, and machines that a run created while its agent was being
// removed. If renew is true, Sweep sends the current network policy to the
// other machines.
func (f *Fleet) Sweep(ctx context.Context, renew bool) {
	f.forgetForks(ctx)
	f.forgetLost(ctx)
	ids, err := f.Runtime.List(ctx)
	if err != nil {
		if ctx.Err() == nil {
			f.Logger.Error("cannot list the machines", "error", err)
		}
		return
	}
	for _, id := range ids {
		owner, ok := AgentOf(id)
		if !ok {
			continue // not created by this server
		}
		working := f.workOn(owner) != nil
		if working {
			continue // the end of the run, or a later sweep, handles the machine
		}
		switch deleted, err := f.isGone(ctx, owner); {
		case err != nil:
			if ctx.Err() == nil {
				f.Logger.Error("cannot read the agent", "agent", owner, "error", err)
			}
		case deleted:
			f.Logger.Info("destroying the machine of a deleted agent", "machine", id)
			if err := f.destroy(ctx, id); err != nil {
				f.Logger.Error("cannot destroy a machine", "machine", id, "error", err)
			}
		case renew:
			f.renewOne(ctx, id, owner)
		}
	}
}

// isGone reports whether an agent is deleted or archived.
func (f *Fleet) isGone(ctx context.Context, agentID string) (bool, error) {
	a, err := f.Agents.Agent(ctx, agentID)
	if errors.Is(err, store.ErrNotFound) {
		return true, nil
	}
	return err == nil && a.Archived, err
}

// sweepAfter destroys the machine that a worker has left behind if the agent
// was deleted meanwhile.
func (f *Fleet) sweepAfter(ctx context.Context, agentID string) {
	if _, err := f.Agents.Agent(ctx, agentID); !errors.Is(err, store.ErrNotFound) {
		return // on an error, a later sweep tries again
	}
	if err := f.destroyOf(ctx, agentID); err != nil {
		f.Logger.Error("cannot destroy the machine of a deleted agent", "agent", agentID, "error", err)
	}
	f.given.forget(agentID)
}
