package automation

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"aloft/internal/agent"
)

// Narrowing restricts one agent further than the server, the team and the
// environment do. It is fixed when the agent is created, and applies to its
// forks.
type Narrowing struct {
	Tools   []string `json:"tools,omitempty"`   // the only tools that the agent may use; none means all
	Network *Network `json:"network,omitempty"` // nil adds no restriction
}

func (s Spec) narrowing() *Narrowing {
	if len(s.Tools) == 0 && s.Network == nil {
		return nil
	}
	return &Narrowing{Tools: s.Tools, Network: s.Network}
}

// Narrowings reads and stores the restrictions of agents.
type Narrowings interface {
	SetNarrowing(ctx context.Context, agentID string, narrowing json.RawMessage) error
	Narrowing(ctx context.Context, agentID string) (json.RawMessage, error)
}

// NarrowingOf returns the restrictions of an agent. The zero value adds none.
func NarrowingOf(ctx context.Context, from Narrowings, agentID string) (n Narrowing, err error) {
	data, err := from.Narrowing(ctx, agentID)
	if err != nil || data == nil {
		return n, err
	}
	if err := json.Unmarshal(data, &n); err != nil {
		return n, fmt.Errorf("the restrictions of agent %s: %w", agentID, err)
	}
	return n, nil
}

// Inherit restricts a fork like the agent that it was forked from. Call it
// before the fork is created.
func Inherit(ctx context.Context, in Narrowings, agentID, forkID string) error {
	data, err := in.Narrowing(ctx, agentID)
	if err != nil || data == nil {
		return err
	}
	return in.SetNarrowing(ctx, forkID, data)
}

// Permits reports whether the agent may use a tool.
func (n Narrowing) Permits(tool string) bool {
	return len(n.Tools) == 0 || slices.Contains(n.Tools, tool)
}

// Egress returns the restriction of the agent's machine as that of an
// environment.
func (n Narrowing) Egress() agent.Egress {
	if n.Network == nil {
		return agent.Egress{}
	}
	return agent.Egress{Mode: "network_settings_only", Allow: n.Network.Allow}
}
