package schedule

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/machine"
	"aloft/internal/control/pod"
	"aloft/internal/control/store"
)

// letGoLimit bounds how long a machine may take to end its connections before it
// is saved.
const letGoLimit = 15 * time.Second

// Why a machine sleeps on its disk only: [agent.MachineHibernated.Code].
const (
	codeDiskOnly = "disk_only" // the configuration says so
	codeNoMemory = "no_memory" // its runtime cannot save memory
	codeNoRoom   = "no_room"   // on the disk
	codeFailed   = "failed"
)

// hibernate puts the machine to sleep, and journals how. Should the server die
// between the two, the next look finds a machine that has stopped, and notes it;
// whoever needs it before that wakes it just so.
func (s *Scheduler) hibernate(ctx context.Context, state *agent.State) error {
	m, err := s.Runtime.Open(ctx, state.MachineID)
	if err != nil {
		return err
	}
	sleeper, ok := m.(machine.Measured)
	if !ok || state.Hibernated && !sleeper.Running() {
		return nil
	}
	return s.putToSleep(ctx, sleeper, state)
}

// putToSleep stops the machine, with its processes saved where that can be, and
// journals how it sleeps. The link to it is the caller's alone.
func (s *Scheduler) putToSleep(ctx context.Context, m machine.Measured, state *agent.State) error {
	slept, err := s.sleep(ctx, m)
	if err != nil {
		return err
	}
	s.Logger.Info("a machine sleeps", "machine", m.ID(), "alive", slept.Alive, "reason", slept.Reason)
	return s.journal(context.WithoutCancel(ctx), state, slept)
}

func (s *Scheduler) sleep(ctx context.Context, m machine.Measured) (*agent.MachineHibernated, error) {
	slept := &agent.MachineHibernated{MachineID: m.ID()}
	live, ok := m.(machine.Checkpointer)
	if !m.Running() {
		slept.Alive = ok && live.Asleep()
		return slept, nil
	}
	err := machine.ErrNoMemory
	if ok {
		err = s.checkpoint(ctx, live)
	}
	if err != nil && ctx.Err() != nil { // the server stops, and the machine stays as it is
		return nil, context.Cause(ctx)
	}
	slept.Alive = err == nil
	if err != nil {
		slept.Code, slept.Reason = codeFailed, err.Error()
		switch {
		case errors.Is(err, errDiskOnly):
			slept.Code = codeDiskOnly
		case errors.Is(err, machine.ErrNoMemory):
			slept.Code = codeNoMemory
		case errors.Is(err, errNoRoom), errors.Is(err, syscall.ENOSPC):
			slept.Code = codeNoRoom
		}
	}
	return slept, m.Stop(ctx)
}

var (
	errDiskOnly = errors.New("machines of this server sleep on their disks (machine.sleep)")
	errNoRoom   = errors.New("there is no room for the memory of a machine")
)

// checkpoint saves the machine's memory and stops it.
func (s *Scheduler) checkpoint(ctx context.Context, m machine.Checkpointer) error {
	if s.DiskOnly {
		return errDiskOnly
	}
	if s.Room != nil {
		if err := s.Room(); err != nil {
			return fmt.Errorf("%w: %w", errNoRoom, err)
		}
	}
	return m.Checkpoint(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeoutCause(ctx, letGoLimit, errors.New("the machine does not answer"))
		defer cancel()
		conn, err := pod.Dial(ctx, m, nil)
		if err != nil {
			return err
		}
		status, err := conn.Status(ctx)
		if err == nil && !status.Booted {
			err = errors.New("the machine was never ready")
		}
		if err != nil {
			return errors.Join(err, conn.Close())
		}
		return conn.Quiesce(ctx)
	})
}

// woken notes that a machine is awake, if it slept or if what its environment
// starts was started for a visitor. The agent is told with its next run, once,
// however often others have woken the machine meanwhile.
func (s *Scheduler) woken(ctx context.Context, state *agent.State, bootID string, started bool) error {
	if !state.Hibernated && !started {
		return nil
	}
	_, err := s.Journal.Append(ctx, store.Append{AgentID: state.Agent.ID, Events: []agent.Event{{Body: &agent.MachineWoken{
		MachineID: state.MachineID, BootID: bootID, Alive: state.Hibernated && bootID == state.LastBootID, Started: started,
	}}}})
	return err
}

// wakingOf is what there is to journal of a machine that is up in the life that the
// agent knows, and may have slept.
func wakingOf(state *agent.State) (bodies []agent.Body) {
	slept := state.Slept
	if state.Hibernated {
		bodies = append(bodies, &agent.MachineWoken{MachineID: state.MachineID, BootID: state.BootID, Alive: true})
		slept += time.Since(state.SleptAt)
	}
	if slept > 0 {
		bodies = append(bodies, &agent.Notice{Code: agent.CodeSlept, Text: fmt.Sprintf(
			"The machine slept for %s. Its processes go on where they were; their connections to the outside were cut, and the clock is right.",
			slept.Round(time.Second))})
	}
	return bodies
}
