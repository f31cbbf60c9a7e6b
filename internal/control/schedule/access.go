package schedule

import (
	"context"
	"errors"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/machine"
	"aloft/internal/control/pod"
	"aloft/internal/fault"
)

// accessTimeout bounds the way into a machine, which may have to start again.
const accessTimeout = 2 * time.Minute

// Access is a person's own connection to the machine of an agent, beside that of
// the worker: it goes on when a run ends, and its end cuts off no git of the
// agent's. Close it when done.
type Access struct {
	Conn  *pod.Conn
	Token string // exec-daemon's
}

// Close ends the connection. The machine goes on.
func (a *Access) Close() error { return a.Conn.Close() }

// Access opens a connection to the machine of an agent, which is started again
// on its disk if it has stopped. An agent without a machine is a conflict.
func (s *Scheduler) Access(ctx context.Context, agentID string) (*Access, error) {
	ctx, cancel := context.WithTimeout(ctx, accessTimeout)
	defer cancel()
	state, err := s.fold(ctx, agentID)
	if err != nil {
		return nil, err
	}
	none := fault.Conflict("the agent has no machine now").Named("no_machine").Hint("send a follow-up: it gets one")
	if state.MachineID == "" {
		return nil, none
	}
	m, err := s.Runtime.Open(ctx, state.MachineID)
	switch {
	case errors.Is(err, machine.ErrNotFound):
		return nil, none
	case err != nil:
		return nil, machineFault(err)
	}
	conn, err := pod.Dial(ctx, m, s.Gateway)
	if errors.Is(err, machine.ErrStopped) {
		if s.works(agentID) {
			return nil, booting()
		}
		if err := m.Restart(ctx); err != nil {
			return nil, machineFault(err)
		}
		conn, err = pod.Dial(ctx, m, s.Gateway)
	}
	if err != nil {
		return nil, machineFault(lostError(err))
	}
	a := &Access{Conn: conn, Token: s.token("exec", m.ID())}
	if err := s.ready(ctx, a, state); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return a, nil
}

func booting() error {
	return fault.Unavailable("the agent's machine is about to start").Named("machine_booting").Hint("try again in a moment")
}

// works reports whether a worker of this server has the agent.
func (s *Scheduler) works(agentID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.workers[agentID] != nil
}

// ready boots a machine that nobody has booted since it was started again. git
// in it has no credential until the next run brings one.
func (s *Scheduler) ready(ctx context.Context, a *Access, state *agent.State) error {
	if err := a.Conn.StepAside(ctx); err != nil {
		return machineFault(lostError(err))
	}
	status, err := a.Conn.Status(ctx)
	switch {
	case err != nil:
		return machineFault(lostError(err))
	case status.Booted:
		return nil
	case s.works(state.Agent.ID):
		return booting()
	}
	b := pod.Boot{ExecToken: a.Token}
	if len(state.Agent.Repos) > 0 {
		b.Checkout = pod.Checkout{
			RepoURL: state.Agent.Repos[0].URL, Ref: state.Agent.Repos[0].StartingRef, Branch: state.Branch, Path: workspace,
			AuthorName: s.Author.Name, AuthorEmail: s.Author.Email, Resume: state.BaseCommit != "",
		}
	}
	if _, err := a.Conn.Boot(ctx, b, func(pod.Step) {}); err != nil {
		return machineFault(stepFault(err))
	}
	return nil
}
