package adapter

import (
	"context"
	"time"

	machineapi "aloft/internal/control/api/machines"
	"aloft/internal/control/artifact"
	"aloft/internal/control/fleet"
)

// Artifacts combines stored artifacts with those of running machines.
type Artifacts struct {
	*artifact.Store

	Fleet *fleet.Fleet
}

var _ machineapi.Artifacts = Artifacts{}

// keepLive is how long List waits for a running machine's newest artifacts.
const keepLive = 10 * time.Second

// List implements [machineapi.Artifacts]. It first stores the newest artifacts of a running
// machine. If that fails, it lists what was stored before.
func (a Artifacts) List(ctx context.Context, agentID string) ([]artifact.File, error) {
	live, cancel := context.WithTimeout(ctx, keepLive)
	defer cancel()
	if err := a.Fleet.KeepArtifacts(live, agentID); err != nil {
		a.Fleet.Logger.Info("cannot list a machine's newest artifacts yet", "agent", agentID, "why", err)
	}
	return a.Store.List(ctx, agentID)
}
