package schedule

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/machine"
	"aloft/internal/control/store"
)

// warnBefore is how long before a machine is removed its users are warned; less
// where it is kept for less than twice that.
const warnBefore = 24 * time.Hour

// Rest looks once at every machine that nobody uses: it puts to sleep those
// that have been idle for Config.Idle, and removes those that nobody has used
// for as long as Config.Retention says, with a warning before. A run, a person in the machine
// and a connection to one of its ports are use.
func (s *Scheduler) Rest(ctx context.Context) {
	ids, err := s.Runtime.List(ctx)
	if err != nil {
		s.Logger.Error("machines cannot be listed", "error", err)
		return
	}
	for _, id := range ids {
		agentID, ok := agentOf(id)
		if !ok {
			continue // not ours
		}
		err := s.restOne(ctx, agentID, id)
		if err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrMoved) && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, machine.ErrNotFound) {
			s.Logger.Error("an idle machine is left as it is", "machine", id, "error", err)
		}
	}
}

// restAlways rests now and then until ctx ends.
func (s *Scheduler) restAlways(ctx context.Context) {
	if s.Idle <= 0 && s.Retention == nil {
		return
	}
	every := leaseTTL
	if s.Idle > 0 {
		every = min(every, max(s.Idle/2, time.Second))
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.Rest(ctx)
		}
	}
}

func (s *Scheduler) restOne(ctx context.Context, agentID, id string) error {
	a, err := s.Agents.Agent(ctx, agentID)
	if err != nil {
		return err
	}
	used := a.UpdatedAt
	for _, at := range []time.Time{s.links.lastUse(id), s.began} { // a server does not know what came before it
		if at.After(used) {
			used = at
		}
	}
	idle, unused := time.Since(used), time.Since(a.UpdatedAt)
	kept, err := s.retention(ctx, a)
	if err != nil {
		return err
	}
	old := kept > 0 && idle > warning(kept) && unused > kept-warning(kept)
	if (s.Idle <= 0 || idle < s.Idle) && !old {
		return nil
	}
	_, err = s.alone(ctx, a, id, func(state *agent.State) error {
		if old {
			return s.expire(ctx, state, kept, unused)
		}
		return s.hibernate(ctx, state)
	})
	return err
}

// alone does something with the machine of an agent that does not work, while
// nobody uses the machine or begins to. ok is false where somebody does.
func (s *Scheduler) alone(ctx context.Context, a agent.Agent, id string, do func(*agent.State) error) (ok bool, err error) {
	s.mu.Lock()
	working := s.workers[a.ID] != nil
	s.mu.Unlock()
	run, err := s.Agents.Run(ctx, a.ID, a.LatestRunID)
	if err != nil || working || !run.Status.Ended() {
		return false, err
	}
	giveBack, alone := s.links.alone(id)
	if !alone {
		return false, nil
	}
	defer giveBack()
	lease := store.LeaseOn(a.ID)
	if ok, err := s.Leases.Acquire(ctx, lease, s.Owner, leaseTTL); err != nil || !ok {
		return false, err // another server works it
	}
	renewed, over := context.WithCancel(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() { s.renewLease(renewed, lease) })
	defer func() {
		over()
		renewing.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.workers[a.ID] == nil { // or else it is the worker's by now
			_ = s.Leases.Release(context.WithoutCancel(ctx), lease, s.Owner) // it lapses
		}
	}()
	state, err := s.fold(ctx, a.ID)
	if err != nil || state.MachineID != id {
		return false, err
	}
	return true, do(state)
}

// leaveLimit bounds how long those who are about to leave a machine are waited for.
const leaveLimit = 5 * time.Second

// deserted waits, for a moment, until nobody works in the machine of an agent
// whose run has ended, or visits it: the end of a run is journaled before its
// worker is done, and who has hung up may not have been noticed yet.
func (s *Scheduler) deserted(ctx context.Context, agentID, machineID string) {
	ctx, cancel := context.WithTimeout(ctx, leaveLimit)
	defer cancel()
	for {
		over := s.links.leaving(machineID)
		s.mu.Lock()
		if w := s.workers[agentID]; w != nil {
			over = w.done
		}
		s.mu.Unlock()
		if over == nil {
			return
		}
		select {
		case <-over:
		case <-ctx.Done():
			return
		}
	}
}

// renewLease keeps a lease until ctx ends: to save a large memory takes a while.
func (s *Scheduler) renewLease(ctx context.Context, lease string) {
	tick := time.NewTicker(leaseRenew)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if _, err := s.Leases.Acquire(ctx, lease, s.Owner, leaseTTL); err != nil && ctx.Err() == nil {
				s.Logger.Error("lease cannot be renewed", "lease", lease, "error", err)
			}
		}
	}
}

// retention is for how long a machine of the agent's is kept that nobody uses.
func (s *Scheduler) retention(ctx context.Context, a agent.Agent) (time.Duration, error) {
	if s.Retention == nil {
		return 0, nil
	}
	return s.Retention(ctx, a)
}

func warning(kept time.Duration) time.Duration { return min(warnBefore, kept/2) }

// journal appends an event that holds as long as nothing else has happened.
func (s *Scheduler) journal(ctx context.Context, state *agent.State, body agent.Body) error {
	head := state.Agent.Head
	done, err := s.Journal.Append(ctx, store.Append{AgentID: state.Agent.ID, Events: []agent.Event{{Body: body}}, IfHead: &head})
	for _, e := range done {
		state.Apply(e)
	}
	return err
}

// expire warns that the machine will be removed, which is kept for so long, and
// removes it in its time.
func (s *Scheduler) expire(ctx context.Context, state *agent.State, kept, unused time.Duration) error {
	switch {
	case state.Expires.IsZero():
		// In full, however late it comes: a server may have been down for weeks.
		at := time.Now().Add(max(warning(kept), kept-unused))
		return s.journal(ctx, state, &agent.MachineExpiring{MachineID: state.MachineID, At: at.UTC()})
	case time.Now().Before(state.Expires):
		return s.hibernate(ctx, state)
	}
	id := state.MachineID
	if err := s.journal(ctx, state, &agent.MachineExpired{MachineID: id}); err != nil {
		return err
	}
	if err := s.destroy(ctx, id); err != nil {
		return fmt.Errorf("remove an expired machine: %w", err)
	}
	s.Logger.Info("the machine is removed: nobody has used it for long", "machine", id)
	return nil
}
