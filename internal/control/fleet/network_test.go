package fleet

import (
	"context"
	"errors"
	"testing"
	"time"

	"aloft/internal/agent"
	"aloft/internal/environment"
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
		{"NoMoreThanTheTeam", policy.Network{Mode: policy.AllowAll}, agent.Egress{Within: &agent.Egress{Mode: policy.EnvironmentSettingsOnly, Allow: []string{"a.example"}}},
			map[string]bool{"a.example": true, "b.example": false}},
		{"WhatAllLetIn", policy.Network{Mode: policy.AllowAll}, agent.Egress{
			Mode: policy.EnvironmentSettingsOnly, Allow: []string{"a.example", "b.example"},
			Within: &agent.Egress{Mode: policy.EnvironmentDefaultPlus, Allow: []string{"b.example"}},
		}, map[string]bool{"a.example": false, "b.example": true, "pages.golang.org": false}},
	} {
		s := &Fleet{Config: Config{Network: c.server}}
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
	if n, err := (&Fleet{}).NetworkFor(agent.Egress{Mode: policy.EnvironmentAllowAll}); err != nil || n.Mode != "" {
		t.Errorf("a server without a network gives %+v, %v", n, err)
	}
	if _, err := (&Fleet{Config: Config{Network: policy.Network{Mode: policy.AllowAll}}}).NetworkFor(agent.Egress{Mode: "all of it"}); err == nil {
		t.Error("an unknown mode is passed over")
	}
	if _, err := (&Fleet{Config: Config{Network: policy.Network{Mode: policy.AllowAll}}}).NetworkFor(agent.Egress{Within: &agent.Egress{Mode: "all of it"}}); err == nil {
		t.Error("an unknown mode of the team is passed over")
	}
}

// The team's settings at the time when an agent is created restrict its
// machine. If they cannot be read, no machine is created.
func TestEgressOf(t *testing.T) {
	made := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	var broken error
	s := &Fleet{Config: Config{TeamEgress: func(_ context.Context, at time.Time) (agent.Egress, error) {
		if at.Before(made) {
			return agent.Egress{Allow: []string{"unused.example"}}, broken
		}
		return agent.Egress{Mode: policy.EnvironmentSettingsOnly}, broken
	}}}
	e := environment.Environment{EgressMode: environment.EgressSettingsOnly, EgressAllowlist: []string{"a.example"}}
	for at, within := range map[time.Time]bool{made.Add(-time.Second): false, made: true} {
		got, err := s.egressOf(t.Context(), agent.Agent{CreatedAt: at}, e)
		if err != nil || got.Mode != policy.EnvironmentSettingsOnly || len(got.Allow) != 1 || (got.Within != nil) != within {
			t.Errorf("at %s: %+v, %v", at, got, err)
		}
	}
	s.Network = policy.Network{Mode: policy.AllowAll}
	s.Narrowed = func(_ context.Context, id string) (agent.Egress, error) {
		if id == "bc-narrow" {
			return agent.Egress{Mode: policy.EnvironmentSettingsOnly, Allow: []string{"b.example"}}, nil
		}
		return agent.Egress{}, nil
	}
	for id, want := range map[string]bool{"bc-narrow": false, "bc-other": true} {
		got, err := s.egressOf(t.Context(), agent.Agent{ID: id, CreatedAt: made.Add(-time.Second)}, e)
		if err != nil {
			t.Fatal(err)
		}
		if got := matcher(t, s, got).Name("a.example"); got.Allowed != want {
			t.Errorf("%s: %+v", id, got)
		}
	}
	narrow, err := s.egressOf(t.Context(), agent.Agent{ID: "bc-narrow", CreatedAt: made}, e)
	if err != nil || narrow.Within == nil || narrow.Within.Within == nil {
		t.Fatalf("the restrictions of the team and the agent: %+v, %v", narrow, err)
	}
	broken = errors.New("broken")
	if _, err := s.egressOf(t.Context(), agent.Agent{CreatedAt: made}, e); !errors.Is(err, broken) {
		t.Errorf("settings that cannot be read: %v", err)
	}
}

// matcher compiles the network policy of a machine.
func matcher(t *testing.T, f *Fleet, e agent.Egress) *policy.Matcher {
	t.Helper()
	n, err := f.NetworkFor(e)
	if err != nil {
		t.Fatal(err)
	}
	m, err := n.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return m
}
