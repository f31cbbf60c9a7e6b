package schedule

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"aloft/internal/control/egress"
	"aloft/internal/control/machine"
	"aloft/internal/control/pod"
	"aloft/internal/fault"
	"aloft/internal/policy"
)

// policyTimeout bounds the telling of a gateway, which is a process of this host.
const policyTimeout = 5 * time.Second

// renewPolicy gives the machine's gateway the policy of today: it may have been
// started by a server with another one. A gateway that is gone lets nothing
// out, so the work can go on; one that keeps an older policy is an error.
func (s *Scheduler) renewPolicy(ctx context.Context, m machine.Machine) error {
	n, ok := m.(machine.Networked)
	if !ok {
		return nil
	}
	today := s.Network
	if today.Mode == "" {
		today.Mode = policy.None // for the machines of a server that had one
	}
	ctx, cancel := context.WithTimeout(ctx, policyTimeout)
	defer cancel()
	err := egress.NewClient(n.DialGateway).SetPolicy(ctx, today)
	if errors.Is(err, machine.ErrNoNetwork) {
		if s.Network.Mode != "" {
			s.Logger.Warn("the machine has no way out until it is started again", "machine", m.ID(), "error", err)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("network policy of machine %s: %w", m.ID(), err)
	}
	return nil
}

// renewOne gives an idle machine the policy of today.
func (s *Scheduler) renewOne(ctx context.Context, id string) {
	m, err := s.Runtime.Open(ctx, id)
	if err == nil {
		err = s.renewPolicy(ctx, m)
	}
	if err != nil && !errors.Is(err, machine.ErrNotFound) && ctx.Err() == nil {
		s.Logger.Error("the network policy of a machine is not renewed", "machine", id, "error", err)
	}
}

// machineOf opens the agent's machine.
func (s *Scheduler) machineOf(ctx context.Context, agentID string) (machine.Machine, error) {
	state, err := s.fold(ctx, agentID)
	if err != nil {
		return nil, err
	}
	if state.MachineID == "" {
		return nil, noMachine()
	}
	m, err := s.Runtime.Open(ctx, state.MachineID)
	if errors.Is(err, machine.ErrNotFound) {
		return nil, noMachine()
	}
	return m, err
}

func noMachine() error {
	return fault.Conflict("the agent has no machine now").Named("machine_absent").Hint("send it a follow-up: that brings one up")
}

// DialPort connects to a TCP port of the loopback in the agent's machine.
func (s *Scheduler) DialPort(ctx context.Context, agentID string, port uint16) (net.Conn, error) {
	m, err := s.machineOf(ctx, agentID)
	if err != nil {
		return nil, err
	}
	conn, err := pod.DialPort(ctx, m, port)
	switch {
	case errors.Is(err, machine.ErrStopped):
		return nil, noMachine()
	case errors.Is(err, pod.ErrNobodyListens):
		return nil, fault.NotFound("nobody listens on port %d in the machine", port).Named("port_closed").
			Hint("start the program there, and try again")
	case err != nil:
		return nil, fmt.Errorf("port %d of %s: %w", port, agentID, err)
	}
	return conn, nil
}

// Connections returns what the agent's machine has open to the outside, and at
// most limit of the connections that ended after the numbered one. A machine
// without a network has none.
func (s *Scheduler) Connections(ctx context.Context, agentID string, after uint64, limit int) (policy.Connections, error) {
	m, err := s.machineOf(ctx, agentID)
	if err != nil {
		return policy.Connections{}, err
	}
	n, ok := m.(machine.Networked)
	if !ok {
		return policy.Connections{}, nil
	}
	page, err := egress.NewClient(n.DialGateway).Connections(ctx, after, limit, 0)
	if errors.Is(err, machine.ErrNoNetwork) {
		return policy.Connections{}, nil
	}
	return page, err
}
