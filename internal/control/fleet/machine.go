package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"syscall"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/build"
	"aloft/internal/control/loop/journal"
	"aloft/internal/control/loop/remote"
	"aloft/internal/control/machine"
	"aloft/internal/control/pod"
	"aloft/internal/environment"
	"aloft/internal/fault"
	"aloft/internal/policy/sandbox"
	"aloft/internal/secret"
	"aloft/internal/telemetry"
)

// Ready returns the agent's machine, ready: the existing one, started again
// if necessary, or a new one. It is [loop.Config.Machine].
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
	m, err := w.opened(ctx, state)
	if err != nil {
		return nil, err
	}
	base := build.Base{Install: state.Install && !state.Used}
	if m == nil {
		if base, err = w.base(ctx, plan, state, record); err != nil {
			return nil, err
		}
	}
	h, ready, err := w.up(ctx, m, base, plan, branches, state, record)
	if err != nil {
		return nil, err
	}
	if err := w.setUp(ctx, h, ready, base, plan.Environment, state, record); err != nil {
		h.close()
		return nil, err
	}
	if h.lacking, err = h.exec.Lacking(ctx); err != nil {
		h.close()
		if errors.Is(err, pod.ErrCatalogue) {
			err = w.outdated(ctx, h.id, err)
		}
		return nil, lostError(err)
	}
	if h.checksHooks, err = h.exec.ChecksHooks(ctx); err != nil {
		h.close()
		return nil, lostError(err)
	}
	if h.known, err = h.exec.Known(ctx); err != nil {
		h.close()
		return nil, lostError(err)
	}
	w.current.Store(h)
	w.once.Do(func() { close(w.ready) })
	return h, nil
}

// up creates the machine if m is nil, and boots it. It limits how many machines
// boot at once.
func (w *Work) up(ctx context.Context, m machine.Machine, base build.Base, plan build.Plan, branches []string, state *agent.State, record journal.Record) (*readyMachine, pod.Ready, error) {
	select {
	case w.fleet.boots <- struct{}{}:
		defer func() { <-w.fleet.boots }()
	case <-ctx.Done():
		return nil, pod.Ready{}, context.Cause(ctx)
	}
	if m == nil {
		var err error
		if m, err = w.made(ctx, base, plan.Environment, state, record); err != nil {
			return nil, pod.Ready{}, err
		}
	}
	return w.booted(ctx, m, plan.Environment, branches, state, record)
}

// opened returns the agent's existing machine, running or not, or nil.
func (w *Work) opened(ctx context.Context, state *agent.State) (machine.Machine, error) {
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

// made creates a machine.
func (w *Work) made(ctx context.Context, base build.Base, e environment.Environment, state *agent.State, record journal.Record) (machine.Machine, error) {
	if w.fleet.Room != nil {
		if err := w.fleet.Room(); err != nil {
			return nil, err
		}
	}
	start := time.Now()
	id := NewID(state.Agent.ID)
	asked, err := w.fleet.egressOf(ctx, state.Agent, e)
	if err != nil {
		return nil, err
	}
	network, err := w.fleet.NetworkFor(asked)
	if err != nil {
		return nil, err
	}
	// Journal the machine before it is created, so that a machine that a crash
	// leaves behind is found and used, or destroyed.
	if err := record(ctx, &agent.MachineMade{MachineID: id, Layer: base.Layer, Install: base.Install, Origin: w.origin, RulesAt: w.rulesAt, Egress: asked, Checks: e.Checks}, &agent.BootStep{Name: "machine", State: string(pod.StepRunning)}); err != nil {
		return nil, err
	}
	logs, err := w.fleet.makeConnectionLog(state.Agent.ID)
	if err != nil {
		return nil, err
	}
	m, err := w.fleet.Runtime.Create(ctx, machine.Spec{
		ID: id, Image: base.Image, Layer: base.Layer, Alive: state.Fork != nil && state.Fork.BootID != "" && base.Layer == state.Agent.Layer, Class: cmp.Or(state.Agent.Class, w.fleet.Class), Limits: w.fleet.Limits, Network: network, ConnectionLog: logs,
	})
	if err != nil {
		failed := &agent.BootStep{Name: "machine", State: string(pod.StepFailed), DurationMS: time.Since(start).Milliseconds(), Detail: err.Error()}
		last, cancel := journal.Outliving(ctx)
		defer cancel()
		return nil, errors.Join(machineFault(err), record(last, failed))
	}
	return m, record(ctx, &agent.BootStep{Name: "machine", State: string(pod.StepDone), DurationMS: time.Since(start).Milliseconds()})
}

// booted dials the machine and boots it.
func (w *Work) booted(ctx context.Context, m machine.Machine, e environment.Environment, branches []string, state *agent.State, record journal.Record) (*readyMachine, pod.Ready, error) {
	set, until, err := w.fleet.variables(ctx, state.Agent)
	if err != nil {
		return nil, pod.Ready{}, err
	}
	l := w.fleet.machines.Use(m.ID())
	h := &readyMachine{id: m.ID(), token: w.fleet.token("exec", m.ID()), folders: agent.Folders(state.Agent.Repos), repos: several(state.Agent.Repos), traced: w.fleet.Spans != nil, revoke: func() {}, letGo: func() { w.fleet.machines.Leave(m.ID(), l) }, stale: func() {}}
	ready, err := w.bootOver(ctx, l, h, m, e, branches, set, state, record)
	if err != nil {
		h.letGo()
		h.revoke()
		return nil, ready, err
	}
	h.keep = func(ctx context.Context) error { return w.fleet.keep(ctx, state, m.ID(), h.conn) }
	h.hookSandbox = func(ctx context.Context, a agent.Agent) (*sandbox.Policy, error) {
		return w.fleet.sandboxPolicy(ctx, a, SandboxHooks)
	}
	h.gitSandbox = func(ctx context.Context) (*sandbox.Policy, error) { return w.fleet.gitSandbox(ctx, state.Agent) }
	h.mcp = h.conn.MCP(w.fleet.token("exec", m.ID()))
	h.mcpSandbox = func(ctx context.Context, a agent.Agent) (*sandbox.Policy, error) {
		return w.fleet.sandboxPolicy(ctx, a, SandboxMCP)
	}
	h.enforced = w.fleet.Sandbox != nil && w.fleet.Sandbox(cmp.Or(state.Agent.Class, w.fleet.Class))
	h.rules = h.conn.Rules(w.fleet.token("exec", m.ID()))
	h.hooks, h.people = h.conn.Hooks(w.fleet.token("exec", m.ID())), w.fleet.hooksOf
	h.exec = pod.NewExec(h.conn.OpenExec, w.fleet.token("exec", m.ID()), w.fleet.redact(state, m.ID()), pod.Trace(w.traceparent(state)))
	if !until.IsZero() {
		h.keepFresh(w.ctx, func(ctx context.Context) { w.keepFresh(ctx, h, m.ID(), branches, state, until) })
	}
	return h, ready, nil
}

// bootOver dials and boots the machine over its link, and fills in h.
func (w *Work) bootOver(ctx context.Context, l *Connection, h *readyMachine, m machine.Machine, e environment.Environment, branches []string, set secret.Set, state *agent.State, record journal.Record) (pod.Ready, error) {
	l.Lock()
	defer l.Unlock()
	conn, err := l.Dial(ctx, m, w.fleet.Gateway, w.fleet.connection(state, m.ID())...)
	if u, ok := errors.AsType[UnstartedError](err); ok {
		return pod.Ready{}, w.unstartable(ctx, m, state, u.Cause)
	}
	if err != nil {
		return pod.Ready{}, machineFault(lostError(err))
	}
	if err := w.fleet.renewPolicy(ctx, m, state.Egress); err != nil {
		return pod.Ready{}, machineFault(err)
	}
	h.conn = conn
	return w.boot(ctx, h, e, branches, set, state, record)
}

// unstartable handles a machine that does not start. One that was never ready
// contains nothing and is destroyed, so that a new one is created.
func (w *Work) unstartable(ctx context.Context, m machine.Machine, state *agent.State, cause error) error {
	if state.Used {
		return machineFault(cause)
	}
	if err := m.Destroy(ctx); err != nil {
		return machineFault(errors.Join(cause, err))
	}
	return fmt.Errorf("%w: %w", remote.ErrLost, cause)
}

// outdated stops a machine whose programs are of another version of the server, such as
// before an upgrade. Its disk stays, and the next start has this server's programs.
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

// boot makes pod-daemon do the missing boot steps, and journals them.
func (w *Work) boot(ctx context.Context, h *readyMachine, e environment.Environment, branches []string, set secret.Set, state *agent.State, record journal.Record) (pod.Ready, error) {
	b := pod.Boot{ExecToken: w.fleet.token("exec", h.id), User: e.User, Env: environ(e, state, set), Trace: w.fleet.Spans != nil}
	if len(state.Agent.Repos) > 0 {
		reached := w.fleet.Gateway.Reach(ctx, w.fleet.reachRequest(state, e))
		h.reads, b.Hosts = reached.Read, reached.Hosts
		if !state.Used {
			h.refused = reached.Refused
		}
		credential, err := w.fleet.Gateway.Grant(w.grant(h, state, branches))
		if err != nil {
			return pod.Ready{}, err
		}
		b.GitCredential = credential
		h.revoke = func() { w.fleet.Gateway.Revoke(b.GitCredential) }
		b.Checkout, b.Others = w.fleet.checkouts(state, branches)
	}
	status, err := h.conn.Status(ctx)
	if err != nil {
		return pod.Ready{}, lostError(err)
	}
	quiet := status.Booted && status.BootID == state.BootID // the machine is already up, so there is nothing to report
	var recordErr error
	ready, err := h.conn.Boot(ctx, b, func(step pod.Step) {
		if recordErr == nil && !quiet {
			recordErr = record(ctx, journalled(step))
		}
	})
	if err != nil {
		return ready, errors.Join(stepFault(err), recordErr)
	}
	if recordErr != nil {
		return ready, recordErr
	}
	if err := w.give(ctx, h, h.id, set, !status.ExecRunning, state, record); err != nil {
		return ready, err
	}
	return ready, lostError(h.conn.SetMetadata(ctx, metadata(state, branches)))
}

// environ returns the environment variables for a machine's processes.
// Variables that people have set take precedence over those in the repository.
func environ(e environment.Environment, state *agent.State, set secret.Set) map[string]string {
	env := maps.Clone(e.Env)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, historyKept(state))
	maps.Copy(env, set.Environ())
	return env
}

// setUp sets up a machine that has booted, and journals that it is ready.
func (w *Work) setUp(ctx context.Context, h *readyMachine, ready pod.Ready, base build.Base, e environment.Environment, state *agent.State, record journal.Record) error {
	h.boot = ready.BootID
	if ready.BootID == state.BootID {
		if bodies := wakingOf(state); len(bodies) > 0 {
			return record(ctx, bodies...)
		}
		return nil
	}
	var bodies []agent.Body
	if state.Hibernated {
		bodies = append(bodies, &agent.MachineWoken{MachineID: h.id, BootID: ready.BootID})
	}
	bodies = append(bodies, &agent.MachineReady{
		MachineID: h.id, BootID: ready.BootID, BaseCommit: ready.BaseCommit, Branch: ready.Branch, Others: others(ready), User: ready.User,
		Facilities: (*agent.Facilities)(ready.Facilities),
	})
	for _, note := range append(h.refused, ready.Notes...) {
		bodies = append(bodies, &agent.Notice{Text: note})
	}
	if notice := whatIsLost(state); notice != "" {
		bodies = append(bodies, &agent.Notice{Text: notice})
	}
	notices, err := w.started(ctx, h, ready, base, e, state, record)
	if err != nil {
		return err
	}
	for _, notice := range notices {
		bodies = append(bodies, &agent.Notice{Text: notice})
	}
	began := state.Agent.Layer != ""
	if err := record(ctx, bodies...); err != nil {
		return err
	}
	if began { // the disk from which it started is not needed any more
		w.fleet.forgetForks(ctx)
	}
	return nil
}

// started sets up a machine after a new boot, unless that was already done in
// this boot, and returns what to tell the agent.
func (w *Work) started(ctx context.Context, h *readyMachine, ready pod.Ready, base build.Base, e environment.Environment, state *agent.State, record journal.Record) (notices []string, err error) {
	if state.Alive(ready.BootID) {
		return []string{agent.ForkedAlive}, nil // the copied processes include what the environment starts
	}
	if state.Fork != nil && state.Fork.BootID != "" && !state.Settled {
		notices = []string{agent.ForkedWithout}
	}
	now, err := w.fleet.State(ctx, w.agentID) // a visitor may have woken it meanwhile
	if err != nil {
		return nil, err
	}
	if now.Started != ready.BootID {
		failures, err := w.fleet.setUp(ctx, h.conn, h.id, state.Agent, e, base.Install, record)
		if err != nil {
			return nil, err
		}
		notices = append(notices, failures...)
	}
	if state.Review != nil && !state.Used { // after the install command, which must not run files of the change
		failure, err := applyChange(ctx, h.conn, state.Review.Patch)
		if err != nil {
			return nil, err
		}
		if failure != "" {
			notices = append(notices, failure)
		}
	}
	if len(e.Terminals) > 0 {
		notices = append(notices, aboutTerminals(e.Terminals))
	}
	return notices, nil
}

// whatIsLost returns what the model has to know about a machine that has just
// become ready, or "".
func whatIsLost(state *agent.State) string {
	const gone = " Processes, background commands, shell variables and the working directory are gone: " +
		"check the state of the tree before you continue."
	switch {
	case !state.Settled: // its first machine
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
	conn, err := l.DialRunning(ctx, m, f.Gateway, f.redact(state, m.ID()), f.connection(state, m.ID())...)
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
