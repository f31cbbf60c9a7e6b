package pull

import (
	"context"

	"aloft/internal/agent"
)

// privacy reports whether the run is in privacy mode.
func (d *Desk) privacy(ctx context.Context, r agent.Run) (bool, error) {
	if d.Privacy == nil {
		return false, nil
	}
	return d.Privacy(ctx, r)
}

// begun reports whether the agent's first run was in privacy mode. The agent's
// name comes from the prompt of that run, so no later run may show the name or
// the prompt.
func (d *Desk) begun(ctx context.Context, a agent.Agent) (bool, error) {
	return d.privacy(ctx, agent.Run{AgentID: a.ID, CreatedAt: a.CreatedAt})
}
