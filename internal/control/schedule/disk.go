package schedule

import (
	"context"
	"errors"

	"aloft/internal/control/machine"
)

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
