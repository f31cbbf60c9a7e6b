package fleet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/egress"
	"aloft/internal/control/machine"
	"aloft/internal/control/pod"
	"aloft/internal/control/store"
	"aloft/internal/environment"
	"aloft/internal/fault"
	"aloft/internal/policy"
)

// policyTimeout is the timeout for updating a network gateway, which runs on
// this host.
const policyTimeout = 5 * time.Second

// NetworkFor returns the network policy of a machine: the server's policy,
// restricted by the settings of the team, the automation and the environment.
func (f *Fleet) NetworkFor(e agent.Egress) (policy.Network, error) {
	network := f.Network
	if network.Mode == "" {
		return network, nil
	}
	for within := e.Within; within != nil; within = within.Within {
		outer, err := policy.ForEnvironment(within.Mode, within.Allow)
		if err != nil {
			return policy.Network{}, fmt.Errorf("the network of the team or the automation: %w", err)
		}
		network = policy.Narrow(network, outer)
	}
	if e.Mode == "" && len(e.Allow) == 0 {
		return network, nil
	}
	own, err := policy.ForEnvironment(e.Mode, e.Allow)
	if err != nil {
		return policy.Network{}, fault.Invalid("egressAllowlist: %v", err).Named("environment_invalid").
			Hint("run `aloft env check` in the repository")
	}
	return policy.Narrow(network, own), nil
}

// egressOf returns the restrictions of an agent's network: the environment's,
// the agent's own, and the team's at the time when the agent was created.
func (f *Fleet) egressOf(ctx context.Context, a agent.Agent, e environment.Environment) (agent.Egress, error) {
	out := agent.Egress{Mode: string(e.EgressMode), Allow: e.EgressAllowlist}
	if f.Narrowed != nil {
		own, err := f.Narrowed(ctx, a.ID)
		if err != nil {
			return out, err
		}
		if own.Mode != "" {
			out.Within = &own
		}
	}
	if f.TeamEgress == nil {
		return out, nil
	}
	team, err := f.TeamEgress(ctx, a.CreatedAt)
	if err == nil && team.Mode != "" {
		team.Within = out.Within
		out.Within = &team
	}
	return out, err
}

// renewPolicy sends the machine's network gateway the current policy, because
// an earlier server may have started the gateway with a different policy. It is
// not an error if the gateway is gone: the machine then has no network, and a
// new gateway starts with the current policy. A gateway that keeps an old
// policy is an error.
func (f *Fleet) renewPolicy(ctx context.Context, m machine.Machine, e agent.Egress) error {
	n, ok := m.(machine.Networked)
	if !ok {
		return nil
	}
	today, err := f.NetworkFor(e)
	if err != nil {
		return err
	}
	if today.Mode == "" {
		today.Mode = policy.None // for machines that were created when the server had a network
	}
	ctx, cancel := context.WithTimeout(ctx, policyTimeout)
	defer cancel()
	err = n.SetPolicy(ctx, today)
	if errors.Is(err, machine.ErrNoNetwork) || errors.Is(err, machine.ErrNotFound) {
		return nil // the machine has no network, or is gone
	}
	if err == nil {
		err = egress.NewClient(n.DialGateway).SetPolicy(ctx, today)
	}
	if errors.Is(err, machine.ErrNoNetwork) {
		return nil // the machine is not running, or its gateway is restarting with the current policy
	}
	if err != nil {
		return fmt.Errorf("network policy of machine %s: %w", m.ID(), err)
	}
	return nil
}

// renewOne updates the policy of an idle machine.
func (f *Fleet) renewOne(ctx context.Context, id, agentID string) {
	m, err := f.Runtime.Open(ctx, id)
	if err == nil {
		var state *agent.State
		if state, err = f.State(ctx, agentID); err == nil {
			err = f.renewPolicy(ctx, m, state.Egress)
		}
	}
	if err != nil && !errors.Is(err, machine.ErrNotFound) && ctx.Err() == nil {
		f.Logger.Error("cannot update the network policy of a machine", "machine", id, "error", err)
	}
}

// machineOf opens the agent's machine.
func (f *Fleet) machineOf(ctx context.Context, agentID string) (machine.Machine, error) {
	state, err := f.State(ctx, agentID)
	if err != nil {
		return nil, err
	}
	if state.MachineID == "" {
		return nil, noMachine()
	}
	m, err := f.Runtime.Open(ctx, state.MachineID)
	if errors.Is(err, machine.ErrNotFound) {
		return nil, noMachine()
	}
	return m, err
}

func noMachine() error {
	return fault.Conflict("the agent has no machine now").Named("machine_absent").Hint("send a follow-up: it starts one")
}

// DialPort connects to a loopback TCP port in the agent's machine, and wakes a
// sleeping machine. While the connection is open, the machine counts as in use.
func (f *Fleet) DialPort(ctx context.Context, agentID string, port uint16) (net.Conn, error) {
	m, err := f.machineOf(ctx, agentID)
	if err != nil {
		return nil, err
	}
	l, err := f.machines.Visit(m.ID())
	if err != nil {
		return nil, err
	}
	letGo := sync.OnceFunc(func() { f.machines.Leave(m.ID(), l) })
	conn, err := pod.DialPort(ctx, m, port)
	if errors.Is(err, machine.ErrStopped) {
		var a *Access
		if a, err = f.Access(ctx, agentID); err == nil {
			conn, err = pod.DialPort(ctx, m, port)
			err = errors.Join(err, a.Close())
		}
	}
	if err != nil {
		letGo()
	}
	switch {
	case errors.Is(err, machine.ErrStopped):
		return nil, noMachine()
	case errors.Is(err, pod.ErrNobodyListens):
		return nil, fault.NotFound("nothing is listening on port %d in the machine", port).Named("port_closed").
			Hint("start the program, then try again")
	case err != nil:
		if fault.Of(err).Kind != fault.KindInternal {
			return nil, err
		}
		return nil, fmt.Errorf("port %d of %s: %w", port, agentID, err)
	}
	return &portConn{conn, letGo}, nil
}

// portConn is a connection to a port, which keeps the machine in use.
type portConn struct {
	net.Conn
	letGo func()
}

// CloseWrite closes the writing side of the connection.
func (c *portConn) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return fmt.Errorf("%T has no CloseWrite", c.Conn)
	}
	return half.CloseWrite()
}

// Close closes the connection.
func (c *portConn) Close() error {
	defer c.letGo()
	return c.Conn.Close()
}

// ConnectionLogs are the logs of connections that outlive machines; see
// [egress.Logs].
type ConnectionLogs interface {
	Read(ctx context.Context, name string) ([]policy.Connection, error)
	Remove(ctx context.Context, name string) error
	List(ctx context.Context) ([]string, error)
}

// Forget removes the agent's data in the fleet, except its journal and machine.
func (f *Fleet) Forget(ctx context.Context, agentID string) error {
	f.forgetForks(ctx)
	if f.ConnectionLogs == nil {
		return nil
	}
	return f.ConnectionLogs.Remove(ctx, agentID)
}

// forgetLost removes the connection logs of agents whose deletion was
// interrupted by a crash.
func (f *Fleet) forgetLost(ctx context.Context) {
	if f.ConnectionLogs == nil {
		return
	}
	names, err := f.ConnectionLogs.List(ctx)
	if err != nil {
		f.Logger.Error("cannot list the connection logs", "error", err)
	}
	for _, id := range names {
		if _, err := f.Agents.Agent(ctx, id); errors.Is(err, store.ErrNotFound) {
			if err := f.Forget(ctx, id); err != nil {
				f.Logger.Error("cannot remove the data of a deleted agent", "error", err)
			}
		}
	}
}

// Connections returns the open outbound connections of the agent's machine, and
// at most limit closed ones with numbers greater than after. Connections of the
// agent's earlier machines are included. If the agent never had a machine with
// a network, it returns none.
func (f *Fleet) Connections(ctx context.Context, agentID string, after uint64, limit int) (policy.Connections, error) {
	m, err := f.machineOf(ctx, agentID)
	if n, ok := m.(machine.Networked); ok && err == nil {
		page, err := egress.NewClient(n.DialGateway).Connections(ctx, after, limit, 0)
		if !errors.Is(err, machine.ErrNoNetwork) {
			return page, err
		}
	} else if conflict, ok := errors.AsType[*fault.Error](err); err != nil && (!ok || conflict.Kind != fault.KindConflict) {
		return policy.Connections{}, err
	}
	if f.ConnectionLogs == nil {
		return policy.Connections{}, nil
	}
	all, err := f.ConnectionLogs.Read(ctx, agentID)
	if err != nil {
		return policy.Connections{}, err
	}
	all = slices.DeleteFunc(all, func(c policy.Connection) bool { return c.Seq <= after })
	return policy.Connections{Ended: all[:min(len(all), limit)]}, nil
}
