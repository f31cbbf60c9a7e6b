package fleet

import (
	"context"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/execclient"
	"aloft/internal/control/pod"
)

// Timeouts for copying artifacts while somebody waits.
const (
	keepWithin     = 5 * time.Minute  // timeout at the end of a run
	keepLastWithin = 30 * time.Second // timeout before a machine is destroyed
)

// keep copies new files from the machine's artifacts folder.
func (f *Fleet) keep(ctx context.Context, state *agent.State, machineID string, conn *pod.Conn) error {
	if f.Artifacts == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, keepWithin)
	defer cancel()
	from := execclient.NewArtifacts(conn, f.token("exec", machineID))
	defer from.Close()
	left, err := f.Artifacts.Collect(ctx, state.Agent.ID, from, f.redactor(state, machineID))
	for _, l := range left {
		f.Logger.Warn("cannot store an artifact", "agent", state.Agent.ID, "name", l.Name, "why", l.Why)
	}
	return err
}

// KeepArtifacts copies new artifacts of an agent that is working. For an idle
// agent it does nothing, because everything was copied at the end of the last
// run.
func (f *Fleet) KeepArtifacts(ctx context.Context, agentID string) error {
	w := f.workOn(agentID)
	if w == nil {
		return nil
	}
	if h := w.current.Load(); h != nil {
		return h.Keep(ctx)
	}
	return nil
}

// keepLast copies artifacts from a machine before it is destroyed, such as
// files that a person has added since the last run. If the machine is not
// running, it copies nothing.
func (f *Fleet) keepLast(ctx context.Context, agentID string) {
	if f.Artifacts == nil {
		return
	}
	state, err := f.State(ctx, agentID)
	if err != nil || state.MachineID == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, keepLastWithin)
	defer cancel()
	if err := f.withRunningMachine(ctx, state, func(conn *pod.Conn) error { return f.keep(ctx, state, state.MachineID, conn) }); err != nil {
		f.Logger.Info("cannot copy the last artifacts", "agent", agentID, "why", err)
	}
}
