package schedule

import (
	"context"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/pod"
)

// Timeouts for copying artifacts while somebody waits.
const (
	keepWithin     = 5 * time.Minute  // at the end of a run
	keepLastWithin = 30 * time.Second // before a machine is destroyed
)

// keep copies new files from the machine's artifacts folder.
func (s *Scheduler) keep(ctx context.Context, state *agent.State, machineID string, conn *pod.Conn) error {
	if s.Artifacts == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, keepWithin)
	defer cancel()
	from := conn.Artifacts(s.token("exec", machineID))
	defer from.Close()
	left, err := s.Artifacts.Collect(ctx, state.Agent.ID, from, s.redactor(state, machineID))
	for _, l := range left {
		s.Logger.Warn("cannot store an artifact", "agent", state.Agent.ID, "name", l.Name, "why", l.Why)
	}
	return err
}

// KeepArtifacts copies new artifacts of an agent that is working. For an idle
// agent it does nothing: everything was copied at the end of its run.
func (s *Scheduler) KeepArtifacts(ctx context.Context, agentID string) error {
	s.mu.Lock()
	w := s.workers[agentID]
	s.mu.Unlock()
	if w == nil {
		return nil
	}
	if h := w.current.Load(); h != nil {
		return h.Keep(ctx)
	}
	return nil
}

// keepLast copies artifacts from a machine before it is destroyed, for example
// what a person has added since the last run. If the machine is not running, it
// copies nothing.
func (s *Scheduler) keepLast(ctx context.Context, agentID string) {
	if s.Artifacts == nil {
		return
	}
	state, err := s.fold(ctx, agentID)
	if err != nil || state.MachineID == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, keepLastWithin)
	defer cancel()
	if err := s.withRunningMachine(ctx, state, func(conn *pod.Conn) error { return s.keep(ctx, state, state.MachineID, conn) }); err != nil {
		s.Logger.Info("cannot copy the last artifacts", "agent", agentID, "why", err)
	}
}
