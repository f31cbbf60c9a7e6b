package schedule

import (
	"context"
	"errors"
	"fmt"
	"time"

	"aloft/internal/control/loop"
	"aloft/internal/control/machine"
	"aloft/internal/control/store"
)

// Remove cancels the agent's run, if it has one here, and destroys its machine.
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
		if owner, ok := agentOf(id); ok && owner == agentID {
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

// sweepEvery is how often machines of agents that are gone are looked for while
// the server runs.
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

// sweep destroys the machines of agents that are deleted or archived: those
// that a server was about to destroy when it died, and those that a run made
// while its agent was removed. With renew the others hear what they may reach
// today.
func (s *Scheduler) sweep(ctx context.Context, renew bool) {
	s.forgetForks(ctx)
	s.forgetLost(ctx)
	ids, err := s.Runtime.List(ctx)
	if err != nil {
		if ctx.Err() == nil {
			s.Logger.Error("machines cannot be listed", "error", err)
		}
		return
	}
	for _, id := range ids {
		owner, ok := agentOf(id)
		if !ok {
			continue // not ours
		}
		s.mu.Lock()
		working := s.workers[owner] != nil
		s.mu.Unlock()
		if working {
			continue // its end, or a later sweep, finds the machine
		}
		switch gone, err := s.isGone(ctx, owner); {
		case err != nil:
			if ctx.Err() == nil {
				s.Logger.Error("agent cannot be read", "agent", owner, "error", err)
			}
		case gone:
			s.Logger.Info("destroying the machine of an agent that is gone", "machine", id)
			if err := s.destroy(ctx, id); err != nil {
				s.Logger.Error("machine cannot be destroyed", "machine", id, "error", err)
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

// sweepAfter destroys what a worker has left whose agent was deleted while it
// worked.
func (s *Scheduler) sweepAfter(ctx context.Context, agentID string) {
	if _, err := s.Agents.Agent(ctx, agentID); !errors.Is(err, store.ErrNotFound) {
		return // a later sweep looks again where it cannot be read
	}
	if err := s.destroyOf(ctx, agentID); err != nil {
		s.Logger.Error("the machine of a deleted agent cannot be destroyed", "agent", agentID, "error", err)
	}
	s.given.forget(agentID)
}
