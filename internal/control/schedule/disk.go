package schedule

import (
	"context"
	"errors"

	"aloft/internal/control/machine"
)

// StopMachine stops the machine. If a run uses it, the run ends with the error
// why. The disk remains, and a follow-up starts the machine again. StopMachine
// does not wait for the journal.
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
		return errors.New("this cannot stop a machine from outside")
	}
	return stops.Stop(ctx)
}
