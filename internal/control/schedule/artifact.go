package schedule

import (
	"context"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/pod"
)

// How long artifacts may take to be copied, where somebody waits.
const (
	keepWithin     = 5 * time.Minute  // at the end of a run
	keepLastWithin = 30 * time.Second // before a machine is destroyed
)

// keep copies what is new in the machine's folder of artifacts.
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
		s.Logger.Warn("an artifact is not kept", "agent", state.Agent.ID, "name", l.Name, "why", l.Why)
	}
	return err
}

// KeepArtifacts copies what is new in the folder of artifacts of an agent that
// works just now. Of one that does not, all was copied when it ceased to.
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

// keepLast copies what a machine has that is about to be destroyed, such as what
// a person has put there since the last run. One that does not run has nothing
// that was not copied at its end, or cannot be asked.
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
	if err := s.idle(ctx, state, func(conn *pod.Conn) error { return s.keep(ctx, state, state.MachineID, conn) }); err != nil {
		s.Logger.Info("the last artifacts are not kept", "agent", agentID, "why", err)
	}
}
