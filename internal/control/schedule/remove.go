package schedule

import (
	"context"
	"errors"
	"fmt"
	"time"

	"aloft/internal/control/fleet"
	"aloft/internal/control/loop"
	"aloft/internal/control/machine"
	"aloft/internal/control/store"
)

// Remove cancels the agent's run, if this server works on it, and destroys the
// agent's machine.
func (s *Scheduler) Remove(ctx context.Context, agentID string) error {
	s.mu.Lock()
	w := s.workers[agentID]
	s.mu.Unlock()
	if w != nil {
		w.cancel(loop.ErrCancel)
		select {
		case <-w.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	s.keepLast(ctx, agentID)
	if err := s.destroyOf(ctx, agentID); err != nil {
		return err
	}
	s.given.forget(agentID)
	return nil
}

// destroyOf destroys all machines of an agent.
func (s *Scheduler) destroyOf(ctx context.Context, agentID string) error {
	ids, err := s.Runtime.List(ctx)
	if err != nil {
		return fmt.Errorf("list machines: %w", err)
	}
	for _, id := range ids {
		if owner, ok := fleet.AgentOf(id); ok && owner == agentID {
			if err := s.destroy(ctx, id); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Scheduler) destroy(ctx context.Context, id string) error {
	m, err := s.Runtime.Open(ctx, id)
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
func (s *Scheduler) sweepAlways(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.sweep(ctx, false)
		}
	}
}

// sweep destroys the machines of deleted and archived agents: those that a
// crashed server did not get to, and those that a run created while its agent
// was being removed. If renew is true, the other machines get the current
// network policy.
func (s *Scheduler) sweep(ctx context.Context, renew bool) {
	s.forgetForks(ctx)
	s.forgetLost(ctx)
	ids, err := s.Runtime.List(ctx)
	if err != nil {
		if ctx.Err() == nil {
			s.Logger.Error("cannot list the machines", "error", err)
		}
		return
	}
	for _, id := range ids {
		owner, ok := fleet.AgentOf(id)
		if !ok {
			continue // not created by this server
		}
		s.mu.Lock()
		working := s.workers[owner] != nil
		s.mu.Unlock()
		if working {
			continue // the end of its run, or a later sweep, handles it
		}
		switch gone, err := s.isGone(ctx, owner); {
		case err != nil:
			if ctx.Err() == nil {
				s.Logger.Error("cannot read the agent", "agent", owner, "error", err)
			}
		case gone:
			s.Logger.Info("destroying the machine of a deleted agent", "machine", id)
			if err := s.destroy(ctx, id); err != nil {
				s.Logger.Error("cannot destroy a machine", "machine", id, "error", err)
			}
		case renew:
			s.renewOne(ctx, id, owner)
		}
	}
}

// isGone reports whether an agent is deleted or archived.
func (s *Scheduler) isGone(ctx context.Context, agentID string) (bool, error) {
	a, err := s.Agents.Agent(ctx, agentID)
	if errors.Is(err, store.ErrNotFound) {
		return true, nil
	}
	return err == nil && a.Archived, err
}

// sweepAfter destroys what a worker has left behind if its agent was deleted
// while it worked.
func (s *Scheduler) sweepAfter(ctx context.Context, agentID string) {
	if _, err := s.Agents.Agent(ctx, agentID); !errors.Is(err, store.ErrNotFound) {
		return // on an error, a later sweep tries again
	}
	if err := s.destroyOf(ctx, agentID); err != nil {
		s.Logger.Error("cannot destroy the machine of a deleted agent", "agent", agentID, "error", err)
	}
	s.given.forget(agentID)
}
