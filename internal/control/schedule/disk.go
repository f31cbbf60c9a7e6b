package schedule

import (
	"context"
	"errors"

	"aloft/internal/control/machine"
)

// Measured returns the machines of agents that run and whose disks lie on this
// host.
func (s *Scheduler) Measured(ctx context.Context) ([]machine.Measured, error) {
	ids, err := s.Runtime.List(ctx)
	if err != nil {
		return nil, err
	}
	var all []machine.Measured
	for _, id := range ids {
		if _, ok := agentOf(id); !ok {
			continue // not ours
		}
		m, err := s.Runtime.Open(ctx, id)
		if err != nil {
			continue // it is being destroyed
		}
		if m, ok := m.(machine.Measured); ok && m.Running() {
			all = append(all, m)
		}
	}
	return all, nil
}

// StopMachine ends the run that has the machine, if there is one, in error for
// that reason, and stops the machine. Its disk stays: a follow-up starts it
// again. It does not wait for the journal.
func (s *Scheduler) StopMachine(ctx context.Context, id string, why error) error {
	if agentID, ok := agentOf(id); ok {
		s.mu.Lock()
		w := s.workers[agentID]
		s.mu.Unlock()
		if w != nil {
			w.cancel(why)
		}
	}
	m, err := s.Runtime.Open(ctx, id)
	if errors.Is(err, machine.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	stops, ok := m.(machine.Measured)
	if !ok {
		return errors.New("this machine cannot be stopped from outside")
	}
	return stops.Stop(ctx)
}
