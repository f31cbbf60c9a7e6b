package build

import (
	"context"
	"errors"
	"testing"
	"time"

	"aloft/internal/agent"
	"aloft/internal/environment"
	"aloft/internal/policy"
)

// TestNetworkOfABuild checks that a build can connect only to hosts that the
// policies of the server, the team and the environment all allow. It must not
// run if the team's policy cannot be read.
func TestNetworkOfABuild(t *testing.T) {
	team, broken := agent.Egress{}, error(nil)
	b := New(Config{Network: policy.Network{Mode: policy.AllowAll}, TeamEgress: func(context.Context, time.Time) (agent.Egress, error) { return team, broken }})
	allows := func(e environment.Environment, name string) bool {
		t.Helper()
		n, err := b.network(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		m, err := n.Compile()
		if err != nil {
			t.Fatal(err)
		}
		return m.Name(name).Allowed
	}
	if !allows(environment.Environment{}, "a.example") {
		t.Error("nothing is settled, and something is refused")
	}
	team = agent.Egress{Mode: policy.EnvironmentSettingsOnly, Allow: []string{"a.example"}}
	own := environment.Environment{EgressMode: environment.EgressSettingsOnly, EgressAllowlist: []string{"b.example"}}
	if !allows(environment.Environment{}, "a.example") || allows(environment.Environment{}, "b.example") || allows(own, "a.example") || allows(own, "b.example") {
		t.Error("a build is not held to what the team has settled")
	}
	broken = errors.New("broken")
	if _, err := b.network(t.Context(), own); !errors.Is(err, broken) {
		t.Errorf("settings that cannot be read: %v", err)
	}
}
