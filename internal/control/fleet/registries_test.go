package fleet

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/image/registry"
	"aloft/internal/control/pullthrough"
	"aloft/internal/fault"
	"aloft/internal/policy"
)

// TestRegistries checks which registries a machine is told of, and which images
// it may pull: those that its network and the agent's person may reach. A
// reviewer gets none.
func TestRegistries(t *testing.T) {
	const host, theirs = "registry.invalid", "https://git.test/team/theirs"
	f := New(Config{
		Network: policy.Network{Mode: policy.AllowAll},
		Registries: pullthrough.New(pullthrough.Config{
			Client: registry.New(registry.Config{}), Rules: map[string][]pullthrough.Rule{host: {{Images: "team/app", Repository: theirs}}},
		}),
		MayReach: func(_ context.Context, userID int64, url string) error {
			if userID == 7 && url == theirs {
				return nil
			}
			return fault.Denied("not theirs")
		},
	})
	for name, c := range map[string]struct {
		userID int64
		egress agent.Egress
		preset agent.Preset
		hosts  []string
		status int // of a manifest: 403 if it is refused, 503 if the server tries to fetch it
	}{
		"their image":           {7, agent.Egress{}, "", []string{host}, http.StatusServiceUnavailable},
		"another person":        {8, agent.Egress{}, "", []string{host}, http.StatusForbidden},
		"no network":            {7, agent.Egress{Mode: "network_settings_only"}, "", nil, http.StatusForbidden},
		"on the list":           {7, agent.Egress{Mode: "network_settings_only", Allow: []string{host}}, "", []string{host}, http.StatusServiceUnavailable},
		"outside the team's":    {7, agent.Egress{Within: &agent.Egress{Mode: "network_settings_only", Allow: []string{"x.invalid"}}}, "", nil, http.StatusForbidden},
		"an agent that reviews": {7, agent.Egress{}, agent.Reviewer, nil, 0},
	} {
		state := &agent.State{Agent: agent.Agent{ID: "bc-1", UserID: c.userID}}
		state.Egress, state.Agent.Env.Preset = c.egress, c.preset
		hosts, err := f.pullHosts(state)
		if err != nil || !slices.Equal(hosts, c.hosts) {
			t.Errorf("%s: hosts %v, %v; want %v", name, hosts, err, c.hosts)
		}
		h := f.pulls(state)
		if (h == nil) != (c.status == 0) {
			t.Errorf("%s: the handler is %v", name, h)
		}
		if h == nil {
			continue
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "https://"+host+"/v2/team/app/manifests/1", nil))
		if w.Code != c.status {
			t.Errorf("%s: status %d, want %d: %s", name, w.Code, c.status, w.Body)
		}
	}
}
