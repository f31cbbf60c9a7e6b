package api

import (
	"context"

	"aloft/internal/agent"
	"aloft/internal/control/store"
)

// newBranch returns the branch name of a new agent: derived from the prompt, or
// in privacy mode from the agent's id alone.
func (s *server) newBranch(ctx context.Context, agentID, named string) (string, error) {
	h, err := store.Settings(ctx, s.Rules)
	if err != nil || !h.Now().Privacy {
		return named, err
	}
	return agent.PrivateBranch(agentID), nil
}

// Private implements [v0.Call].
func (c *legacyCall) Private(agentID, runID string) (bool, error) {
	run, err := c.s.runOfAgent(c.r.Context(), agentID, runID)
	if err != nil {
		return false, err
	}
	return store.PrivacyOf(c.r.Context(), c.s.Rules, run)
}
