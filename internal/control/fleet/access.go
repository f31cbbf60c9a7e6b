package fleet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"

	"aloft/internal/agent"
	"aloft/internal/control/gateway"
	"aloft/internal/control/machine"
	"aloft/internal/control/pod"
	"aloft/internal/control/store"
	"aloft/internal/environment"
	"aloft/internal/fault"
)

// Access is a visitor's access to an agent's machine. The visitor must call
// Close.
type Access struct {
	Conn   *pod.Conn // shared by all users of the machine; visitors must not close it
	BootID string
	Token  string // access token of exec-daemon
	id     string // machine id
	once   sync.Once
	leave  func()
}

// Close ends the access. The machine keeps running.
func (a *Access) Close() error {
	a.once.Do(a.leave)
	return nil
}

// Access gives access to the machine of an agent. All visitors, and the agent's
// loop, share one connection. Access starts a stopped machine from its disk,
// and waits while a new machine is being created. If the agent has no machine,
// it returns a conflict.
func (f *Fleet) Access(ctx context.Context, agentID string) (*Access, error) {
	if err := f.awaitMachine(ctx, agentID); err != nil {
		return nil, err
	}
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
	if err != nil {
		return nil, machineFault(err)
	}
	l, err := f.machines.Visit(m.ID())
	if err != nil {
		return nil, err
	}
	leave := func() { f.machines.Leave(m.ID(), l) }
	conn, bootID, err := f.awake(ctx, l, m, state)
	if err != nil {
		leave()
		return nil, visitFault(ctx, agentID, err)
	}
	return &Access{Conn: conn, BootID: bootID, Token: f.token("exec", m.ID()), id: m.ID(), leave: leave}, nil
}

// visitFault converts the error of entering a machine to a message for the
// visitor.
func visitFault(ctx context.Context, agentID string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, pod.ErrLost) {
		return fault.Unavailable("the machine of %s does not answer", agentID).Named("machine_lost").Hint("try again in a moment").Because(err)
	}
	return machineFault(err)
}

// Open opens the named stream (package mux) to the agent's machine, like
// [Fleet.Access]. The stream's RemoteAddr names the machine and its current
// boot. The stream has a CloseWrite method and outlives ctx.
func (f *Fleet) Open(ctx context.Context, agentID, stream string) (net.Conn, error) {
	a, err := f.Access(ctx, agentID)
	if err != nil {
		return nil, err
	}
	opened, err := a.Conn.Open(ctx, stream)
	if err != nil {
		return nil, errors.Join(visitFault(ctx, agentID, err), a.Close())
	}
	return &visit{Conn: opened, addr: bootAddr(a.id + "/" + a.BootID), access: a}, nil
}

// awaitMachine waits for the machine that a worker is making ready.
func (f *Fleet) awaitMachine(ctx context.Context, agentID string) error {
	w := f.workOn(agentID)
	if w == nil {
		return nil
	}
	select {
	case <-w.ready:
	case <-w.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// awake returns the connection to a booted machine.
func (f *Fleet) awake(ctx context.Context, l *Connection, m machine.Machine, state *agent.State) (*pod.Conn, string, error) {
	l.Lock()
	defer l.Unlock()
	if err := f.know(ctx, state.Agent); err != nil {
		return nil, "", err
	}
	conn, err := l.Dial(ctx, m, gateway.Of(f.Gateway, state.Agent.ID), f.connection(state, m.ID())...)
	if err != nil {
		return nil, "", err
	}
	if err := f.renewPolicy(ctx, m, state.Egress); err != nil {
		return nil, "", err
	}
	status, err := conn.Status(ctx)
	if err != nil {
		return nil, "", err
	}
	if status.Booted && status.ExecRunning {
		return conn, status.BootID, f.woken(ctx, state, status.BootID, false)
	}
	busy := f.workOn(state.Agent.ID) != nil
	if busy { // the loop boots the machine, with the run's credentials
		return nil, "", fault.Unavailable("the machine of %s is starting", state.Agent.ID).Named("machine_starting").Hint("try again in a moment")
	}
	// The loop's next boot notices the new BootID and tells the model.
	set, _, err := f.variables(ctx, state.Agent)
	if err != nil {
		return nil, "", err
	}
	conn.Apply(f.redact(state, m.ID()))
	plan, planErr := f.plan(ctx, state)
	if planErr != nil { // the repository is unreachable, but the visitor can still enter
		f.Logger.Warn("cannot read the environment of a waking machine", "machine", m.ID(), "error", planErr)
	}
	b := f.idleBoot(state, m.ID())
	if b.Registries, err = f.pullHosts(state); err != nil {
		return nil, "", err
	}
	b.User, b.Env = plan.Environment.User, environ(plan.Environment, state, set)
	ready, err := conn.Boot(ctx, b, func(pod.Step) {})
	if err != nil {
		return nil, "", stepFault(err)
	}
	if planErr != nil {
		return conn, ready.BootID, f.woken(ctx, state, ready.BootID, false)
	}
	return conn, ready.BootID, f.startFor(ctx, conn, m.ID(), ready.BootID, plan.Environment, state)
}

// startFor runs the environment's start command and terminals in a machine that
// a visitor has woken, even if the visitor leaves. It journals that they have
// run, so that the agent's next run does not run them again in the same boot.
func (f *Fleet) startFor(ctx context.Context, conn *pod.Conn, machineID, bootID string, e environment.Environment, state *agent.State) error {
	ctx = context.WithoutCancel(ctx)
	failures, err := f.setUp(ctx, setUpRequest{
		conn: conn, machineID: machineID, agent: state.Agent, environment: e,
		record: func(context.Context, ...agent.Body) error { return nil },
	})
	if err != nil {
		return err
	}
	if err := f.woken(ctx, state, bootID, true); err != nil || len(failures) == 0 {
		return err
	}
	notice := agent.Event{Body: &agent.Notice{Text: strings.Join(failures, "\n\n")}}
	_, err = f.Journal.Append(ctx, store.Append{AgentID: state.Agent.ID, Events: []agent.Event{notice}})
	return err
}

// idleBoot returns the boot request for a machine whose agent is idle. Git in
// the machine has the last run's credential, which the gateway no longer
// accepts. So a visitor's commits are pushed with the agent's next run.
func (f *Fleet) idleBoot(state *agent.State, machineID string) pod.Boot {
	b := pod.Boot{ExecToken: f.token("exec", machineID), Trace: f.Spans != nil, Embedding: f.embeddingModel()}
	if len(state.Agent.Repos) > 0 {
		b.GitCredential = f.token("git", state.Run.ID)
		var branches []string
		for n := range state.Agent.Repos {
			branches = append(branches, state.Checkout(n).Branch)
		}
		b.Checkout, b.Others = f.checkouts(state, branches)
	}
	return b
}

// visit is a visitor's stream into a machine.
type visit struct {
	net.Conn
	addr   bootAddr
	access *Access
}

// RemoteAddr names the machine and its current boot.
func (v *visit) RemoteAddr() net.Addr { return v.addr }

// CloseWrite closes the writing half of the stream.
func (v *visit) CloseWrite() error {
	half, ok := v.Conn.(interface{ CloseWrite() error })
	if !ok {
		return fmt.Errorf("%T has no CloseWrite", v.Conn)
	}
	return half.CloseWrite()
}

// Close closes the stream and ends the access to the machine.
func (v *visit) Close() error {
	return errors.Join(v.Conn.Close(), v.access.Close())
}

// bootAddr is an address of the form MACHINE/BOOT.
type bootAddr string

// Network implements [net.Addr].
func (bootAddr) Network() string { return "machine" }

// String implements [net.Addr].
func (a bootAddr) String() string { return string(a) }
