package schedule

import (
	"testing"

	"aloft/internal/agent"
	"aloft/internal/policy"
)

func TestNetworkFor(t *testing.T) {
	for _, c := range []struct {
		name   string
		server policy.Network
		asks   agent.Egress
		allows map[string]bool
	}{
		{"AsTheServerHasIt", policy.Network{Mode: policy.AllowAll}, agent.Egress{}, map[string]bool{"a.example": true}},
		{"ItsOwnListAlone", policy.Network{Mode: policy.AllowAll}, agent.Egress{Mode: policy.EnvironmentSettingsOnly, Allow: []string{"*.ok.example"}},
			map[string]bool{"a.ok.example": true, "a.example": false}},
		{"NoMoreThanTheServer", policy.Network{Mode: policy.List, Allow: []string{"a.example"}}, agent.Egress{Mode: policy.EnvironmentSettingsOnly, Allow: []string{"b.example"}},
			map[string]bool{"a.example": false, "b.example": false}},
	} {
		s := &Scheduler{Config: Config{Network: c.server}}
		n, err := s.NetworkFor(c.asks)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		m, err := n.Compile()
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for name, want := range c.allows {
			if got := m.Name(name).Allowed; got != want {
				t.Errorf("%s: %s is allowed: %v", c.name, name, got)
			}
		}
	}
	if n, err := (&Scheduler{}).NetworkFor(agent.Egress{Mode: policy.EnvironmentAllowAll}); err != nil || n.Mode != "" {
		t.Errorf("a server without a network gives %+v, %v", n, err)
	}
	if _, err := (&Scheduler{Config: Config{Network: policy.Network{Mode: policy.AllowAll}}}).NetworkFor(agent.Egress{Mode: "all of it"}); err == nil {
		t.Error("an unknown mode is passed over")
	}
}
