package fleet

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

// letGoLimit is how long a machine may take to close its connections before it
// is saved.
const letGoLimit = 15 * time.Second

// Reasons why a machine sleeps without saved processes:
// [agent.MachineHibernated.Code].
const (
	codeDiskOnly = "disk_only" // required by the configuration
	codeNoMemory = "no_memory" // the runtime cannot save memory
	codeNoRoom   = "no_room"   // the disk is full
	codeFailed   = "failed"
)

// hibernate puts the machine to sleep, and journals how. If the server dies in
// between, the next check finds a stopped machine and journals that it sleeps;
// a user who needs the machine before that wakes it in the same way.
func (f *Fleet) hibernate(ctx context.Context, state *agent.State) error {
	m, err := f.Runtime.Open(ctx, state.MachineID)
	if err != nil {
		return err
	}
	sleeper, ok := m.(machine.Measured)
	if !ok || state.Hibernated && !sleeper.Running() {
		return nil
	}
	return f.putToSleep(ctx, sleeper, state)
}

// putToSleep stops the machine, saving its processes if possible, and journals
// whether its processes were saved. The caller has reserved the connection to
// the machine.
func (f *Fleet) putToSleep(ctx context.Context, m machine.Measured, state *agent.State) error {
	slept, err := f.sleep(ctx, m)
	if err != nil {
		return err
	}
	f.Logger.Info("machine put to sleep", "machine", m.ID(), "alive", slept.Alive, "reason", slept.Reason)
	return f.journal(context.WithoutCancel(ctx), state, slept)
}

func (f *Fleet) sleep(ctx context.Context, m machine.Measured) (*agent.MachineHibernated, error) {
	slept := &agent.MachineHibernated{MachineID: m.ID()}
	live, ok := m.(machine.Checkpointer)
	if !m.Running() {
		slept.Alive = ok && live.Asleep()
		return slept, nil
	}
	err := machine.ErrNoMemory
	if ok {
		err = f.checkpoint(ctx, live)
	}
	if err != nil && ctx.Err() != nil { // the server is stopping, and the machine stays as it is
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
	errDiskOnly = errors.New("this server puts machines to sleep without their processes (machine.sleep)")
	errNoRoom   = errors.New("not enough disk space for the memory of a machine")
)

// checkpoint saves the machine's memory and stops it.
func (f *Fleet) checkpoint(ctx context.Context, m machine.Checkpointer) error {
	if f.DiskOnly {
		return errDiskOnly
	}
	if f.Room != nil {
		if err := f.Room(); err != nil {
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

// woken journals that a machine is awake, if it was asleep or if the
// environment's start command was run for a visitor. The agent is told once, in
// its next run, even if visitors have woken the machine several times.
func (f *Fleet) woken(ctx context.Context, state *agent.State, bootID string, started bool) error {
	if !state.Hibernated && !started {
		return nil
	}
	_, err := f.Journal.Append(ctx, store.Append{AgentID: state.Agent.ID, Events: []agent.Event{{Body: &agent.MachineWoken{
		MachineID: state.MachineID, BootID: bootID, Alive: state.Hibernated && bootID == state.LastBootID, Started: started,
	}}}})
	return err
}

// wakingOf returns the events to journal for a running machine that may have
// slept, in the boot that the agent knows.
func wakingOf(state *agent.State) (bodies []agent.Body) {
	slept := state.Slept
	if state.Hibernated {
		bodies = append(bodies, &agent.MachineWoken{MachineID: state.MachineID, BootID: state.BootID, Alive: true})
		slept += time.Since(state.SleptAt)
	}
	if slept > 0 {
		bodies = append(bodies, &agent.Notice{Code: agent.CodeSlept, Text: fmt.Sprintf(
			"The machine slept for %s. Its processes continue; their outside connections were cut, and the clock is correct.",
			slept.Round(time.Second))})
	}
	return bodies
}
