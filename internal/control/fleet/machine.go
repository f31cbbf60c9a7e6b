package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"syscall"

	"aloft/internal/agent"
	"aloft/internal/control/build"
	"aloft/internal/control/execclient"
	"aloft/internal/control/gateway"
	"aloft/internal/control/loop/journal"
	"aloft/internal/control/loop/remote"
	"aloft/internal/control/machine"
	"aloft/internal/control/pod"
	"aloft/internal/environment"
	"aloft/internal/fault"
	"aloft/internal/secret"
	"aloft/internal/telemetry"
)

// Ready returns the agent's machine, ready for calls. It starts the existing
// machine if necessary, or creates one. It is [loop.Config.Machine].
func (w *Work) Ready(ctx context.Context, state *agent.State, record journal.Record) (remote.Machine, error) {
	w.letGo()
	for _, repo := range state.Agent.Repos { // access may have been withdrawn since the agent was created
		if err := w.fleet.mayReach(ctx, state.Agent.UserID, repo.URL); err != nil {
			return nil, err
		}
	}
	if err := w.findPulls(ctx, state, record); err != nil {
		return nil, err
	}
	branches, err := w.branches(ctx, state, record)
	if err != nil {
		return nil, err
	}
	plan, err := w.fleet.plan(ctx, state)
	if err != nil {
		return nil, err
	}
	if plan.Gone != "" && !state.EnvironmentGone {
		if err := record(ctx, &agent.Notice{Code: agent.CodeEnvironmentGone, Text: plan.Gone}); err != nil {
			return nil, err
		}
	}
	m, err := w.open(ctx, state)
	if err != nil {
		return nil, err
	}
	u := &startup{Work: w, state: state, record: record, branches: branches, plan: plan, base: build.Base{Install: state.Install && !state.Used}}
	if m == nil {
		if u.base, err = w.base(ctx, plan, state, record); err != nil {
			return nil, err
		}
	}
	if err := u.up(ctx, m); err != nil {
		return nil, err
	}
	h := u.machine
	if err := u.setUp(ctx); err != nil {
		h.close()
		return nil, err
	}
	if h.lacking, err = h.calls.Lacking(ctx); err != nil {
		h.close()
		if errors.Is(err, execclient.ErrCatalogue) {
			err = w.outdated(ctx, h.id, err)
		}
		return nil, lostError(err)
	}
	if h.checksHooks, err = h.calls.ChecksHooks(ctx); err != nil {
		h.close()
		return nil, lostError(err)
	}
	if h.known, err = h.calls.Known(ctx); err != nil {
		h.close()
		return nil, lostError(err)
	}
	w.current.Store(h)
	w.once.Do(func() { close(w.ready) })
	return h, nil
}

// open returns the agent's existing machine, running or not, or nil.
func (w *Work) open(ctx context.Context, state *agent.State) (machine.Machine, error) {
	if state.MachineID == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	m, err := w.fleet.Runtime.Open(ctx, state.MachineID)
	if errors.Is(err, machine.ErrNotFound) {
		return nil, nil //nolint:nilnil // there is none
	}
	if err != nil {
		return nil, machineFault(err)
	}
	return m, nil
}

// unstartable handles a machine that does not start. A machine that was never
// ready contains nothing, so it is destroyed and a new one is created.
func (w *Work) unstartable(ctx context.Context, m machine.Machine, state *agent.State, cause error) error {
	if state.Used {
		return machineFault(cause)
	}
	if err := m.Destroy(ctx); err != nil {
		return machineFault(errors.Join(cause, err))
	}
	return fmt.Errorf("%w: %w", remote.ErrLost, cause)
}

// outdated stops a machine whose programs belong to another version of the
// server, for example before an upgrade. Its disk stays, and at the next start
// it gets this server's programs.
func (w *Work) outdated(ctx context.Context, id string, cause error) error {
	m, err := w.fleet.Runtime.Open(ctx, id)
	if err != nil {
		return machineFault(errors.Join(cause, err))
	}
	stopping, ok := m.(machine.Snapshotter)
	if !ok {
		return machineFault(cause)
	}
	if err := stopping.Stop(ctx); err != nil {
		return machineFault(errors.Join(cause, err))
	}
	return fmt.Errorf("%w: %w", remote.ErrLost, cause)
}

// traceparent returns the run's trace context, or "" if tracing is off.
func (w *Work) traceparent(state *agent.State) string {
	if w.fleet.Spans == nil {
		return ""
	}
	return telemetry.Format(telemetry.Run(state.Run.ID, state.Trace))
}

// environ returns the environment variables for a machine's processes.
// Variables that people have set take precedence over those in the repository.
func environ(e environment.Environment, state *agent.State, set secret.Set) map[string]string {
	env := e.Variables()
	maps.Copy(env, historyKept(state))
	maps.Copy(env, set.Environ())
	return env
}

// whatIsLost returns the message to the model about what the machine has lost,
// such as its processes, or "".
func whatIsLost(state *agent.State) string {
	const gone = " Processes, background commands, shell variables and the working directory are gone: " +
		"check the state of the tree before you continue."
	switch {
	case !state.Settled: // the agent's first machine
		return ""
	case !state.Used:
		return "The machine was lost with its disk, and a new one was created: the tree is as last pushed." + gone
	case state.Next() == agent.NextFinish: // only commit and push remain, and the files are there
		return ""
	}
	return "The machine was restarted. Files are as they were when it stopped." + gone
}

// withRunningMachine calls do with the connection to the machine of an idle agent. It does
// not start a stopped machine.
func (f *Fleet) withRunningMachine(ctx context.Context, state *agent.State, do func(*pod.Conn) error) error {
	m, err := f.Runtime.Open(ctx, state.MachineID)
	if err != nil {
		return err
	}
	if err := f.know(ctx, state.Agent); err != nil {
		return err
	}
	l := f.machines.Use(m.ID())
	defer f.machines.Leave(m.ID(), l)
	l.Lock()
	conn, err := l.DialRunning(ctx, m, gateway.Of(f.Gateway, state.Agent.ID), f.redact(state, m.ID()), f.connection(state, m.ID())...)
	l.Unlock()
	if err != nil {
		return err
	}
	return do(conn)
}

// machineFault converts an error to a message for users that says why there is
// no machine.
func machineFault(err error) error {
	switch {
	case errors.Is(err, remote.ErrLost):
		return err
	case errors.Is(err, syscall.ENOSPC):
		return fault.Exhausted("cannot create a machine: the disk is full").Named("disk_full").
			Hint("free space where the server keeps its data, and send a follow-up").Because(err)
	}
	f := fault.Of(err)
	if f.Kind != fault.KindInternal {
		return err
	}
	return fault.Unavailable("cannot create a machine: %v", err).Named("machine_failed").
		Hint("run `aloft doctor` on the server: it says what is missing")
}
