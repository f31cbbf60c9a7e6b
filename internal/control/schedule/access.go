package schedule

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"aloft/internal/agent"
	"aloft/internal/control/machine"
	"aloft/internal/control/pod"
	"aloft/internal/fault"
)

// Open opens a stream of that name (package mux) to the agent's machine: over
// the connection of its loop, or, where it is idle, over one that everyone
// shares who has a stream open. A machine that has stopped is started again on
// its disk; while a new one is being made, Open waits for it. The stream's
// RemoteAddr names the machine and its present life; it has CloseWrite, and
// outlives ctx.
func (s *Scheduler) Open(ctx context.Context, agentID, stream string) (net.Conn, error) {
	if err := s.awaitMachine(ctx, agentID); err != nil {
		return nil, err
	}
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
	if err != nil {
		return nil, machineFault(err)
	}
	l := s.links.use(m.ID())
	conn, bootID, err := s.awake(ctx, l, m, state)
	if err == nil {
		var opened net.Conn
		if opened, err = conn.Open(ctx, stream); err == nil {
			return &visit{Conn: opened, addr: lifeAddr(m.ID() + "/" + bootID), leave: func() { s.links.letGo(m.ID(), l) }}, nil
		}
	}
	s.links.letGo(m.ID(), l)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if errors.Is(err, pod.ErrLost) {
		return nil, fault.Unavailable("the machine of %s does not answer", agentID).Named("machine_lost").Hint("try again in a moment").Because(err)
	}
	return nil, machineFault(err)
}

// awaitMachine waits for the machine that a worker is about to make ready.
func (s *Scheduler) awaitMachine(ctx context.Context, agentID string) error {
	s.mu.Lock()
	w := s.workers[agentID]
	s.mu.Unlock()
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

// awake returns the connection to a machine that is booted.
func (s *Scheduler) awake(ctx context.Context, l *link, m machine.Machine, state *agent.State) (*pod.Conn, string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	conn, err := l.dial(ctx, m, s.Gateway, s.redact(state, m.ID()))
	if err != nil {
		return nil, "", err
	}
	if err := s.renewPolicy(ctx, m); err != nil {
		return nil, "", err
	}
	status, err := conn.Status(ctx)
	if err != nil {
		return nil, "", err
	}
	if status.Booted && status.ExecRunning {
		return conn, status.BootID, nil
	}
	s.mu.Lock()
	busy := s.workers[state.Agent.ID] != nil
	s.mu.Unlock()
	if busy { // its loop boots it, with the rights of its run
		return nil, "", fault.Unavailable("the machine of %s is starting", state.Agent.ID).Named("machine_starting").Hint("try again in a moment")
	}
	// The loop's next boot finds another life of the machine, and tells the model.
	ready, err := conn.Boot(ctx, s.idleBoot(state, m.ID()), func(pod.Step) {})
	if err != nil {
		return nil, "", stepFault(err)
	}
	return conn, ready.BootID, nil
}

// idleBoot is the boot of a machine whose agent does not work. Its git has the
// credential of the last run, which the gateway knows no more: a person's work
// leaves the machine with the agent's next run.
func (s *Scheduler) idleBoot(state *agent.State, machineID string) pod.Boot {
	b := pod.Boot{ExecToken: s.token("exec", machineID)}
	if len(state.Agent.Repos) > 0 {
		b.GitCredential = s.token("git", state.Run.ID)
		b.Checkout = s.checkout(state, state.Branch)
	}
	return b
}

// visit is one stream of somebody who takes part in a machine.
type visit struct {
	net.Conn
	addr  lifeAddr
	once  sync.Once
	leave func()
}

// RemoteAddr names the machine and its present life.
func (v *visit) RemoteAddr() net.Addr { return v.addr }

// CloseWrite says that there is no more.
func (v *visit) CloseWrite() error {
	half, ok := v.Conn.(interface{ CloseWrite() error })
	if !ok {
		return fmt.Errorf("%T has no CloseWrite", v.Conn)
	}
	return half.CloseWrite()
}

// Close ends both directions, and lets go of the machine.
func (v *visit) Close() error {
	err := v.Conn.Close()
	v.once.Do(v.leave)
	return err
}

// lifeAddr is MACHINE/BOOT.
type lifeAddr string

// Network implements [net.Addr].
func (lifeAddr) Network() string { return "machine" }

// String implements [net.Addr].
func (a lifeAddr) String() string { return string(a) }
