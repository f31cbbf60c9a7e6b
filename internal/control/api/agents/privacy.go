package agents

import (
	"context"

	"aloft/internal/agent"
	"aloft/internal/control/store"
)

// newBranch returns the branch name of a new agent: derived from the prompt, or
// in privacy mode from the agent's id alone.
func (s *API) newBranch(ctx context.Context, agentID, named string) (string, error) {
	h, err := store.Settings(ctx, s.Rules)
	if err != nil || !h.Now().Privacy {
		return named, err
	}
	return agent.PrivateBranch(agentID), nil
}
