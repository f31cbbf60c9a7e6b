package fleet

import (
	"context"
	"net/http"

	"aloft/internal/agent"
	"aloft/internal/control/pullthrough"
	"aloft/internal/policy"
)

// registries returns the registries from which the Docker of an agent's machine
// pulls with the server's credentials. A reviewer gets none, because anybody may
// have written the change that it reviews.
func (f *Fleet) registries(state *agent.State) *pullthrough.Server {
	if state.Agent.Env.Preset == agent.Reviewer {
		return nil
	}
	return f.Registries
}

// pulls returns the handler of the pull requests of an agent's machine, which
// may be nil.
func (f *Fleet) pulls(state *agent.State) http.Handler {
	userID, egress := state.Agent.UserID, state.Egress // the loop changes state while the handler serves
	return f.registries(state).For(pullthrough.Grant{
		ID:      state.Agent.ID,
		Network: func() (policy.Network, error) { return f.NetworkFor(egress) },
		May:     func(ctx context.Context, url string) error { return f.mayReach(ctx, userID, url) },
	})
}

// pullHosts returns the registries to name in a boot request.
func (f *Fleet) pullHosts(state *agent.State) ([]string, error) {
	network, err := f.NetworkFor(state.Egress)
	if err != nil {
		return nil, err
	}
	return f.registries(state).Hosts(network), nil
}
