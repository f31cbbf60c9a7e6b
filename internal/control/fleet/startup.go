package fleet

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/build"
	"aloft/internal/control/execclient"
	"aloft/internal/control/gateway"
	"aloft/internal/control/loop/journal"
	"aloft/internal/control/machine"
	"aloft/internal/control/pod"
	"aloft/internal/policy/sandbox"
	"aloft/internal/secret"
)

// startup is one attempt to make an agent's machine ready for its run.
type startup struct {
	*Work
	state    *agent.State
	record   journal.Record
	branches []string // branch to work on in each repository
	plan     build.Plan
	base     build.Base    // the base of a new machine
	set      secret.Set    // the variables for the machine
	machine  *readyMachine // nil until it is booted
	ready    pod.Ready     // the result of the boot
}

// up creates the machine if m is nil, and boots it. It limits how many machines
// boot at once.
func (u *startup) up(ctx context.Context, m machine.Machine) error {
	select {
	case u.fleet.boots <- struct{}{}:
		defer func() { <-u.fleet.boots }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if m == nil {
		var err error
		if m, err = u.create(ctx); err != nil {
			return err
		}
	}
	return u.connect(ctx, m)
}

// create creates the machine, and journals its creation.
func (u *startup) create(ctx context.Context) (machine.Machine, error) {
	if u.fleet.Room != nil {
		if err := u.fleet.Room(); err != nil {
			return nil, err
		}
	}
	start := time.Now()
	id := NewID(u.state.Agent.ID)
	asked, err := u.fleet.egressOf(ctx, u.state.Agent, u.plan.Environment)
	if err != nil {
		return nil, err
	}
	network, err := u.fleet.NetworkFor(asked)
	if err != nil {
		return nil, err
	}
	// Journal the machine before it is created, so that a machine that a crash
	// leaves behind is found and used, or destroyed.
	if err := u.record(ctx, &agent.MachineMade{MachineID: id, Layer: u.base.Layer, Install: u.base.Install, Origin: u.origin, RulesAt: u.rulesAt, Egress: asked, Checks: u.plan.Environment.Checks, Untested: !u.plan.Environment.Testing()}, &agent.BootStep{Name: "machine", State: string(pod.StepRunning)}); err != nil {
		return nil, err
	}
	m, err := u.fleet.Runtime.Create(ctx, machine.Spec{
		ID: id, Image: u.base.Image, Layer: u.base.Layer, Alive: u.state.Fork != nil && u.state.Fork.BootID != "" && u.base.Layer == u.state.Agent.Layer, Class: cmp.Or(u.state.Agent.Class, u.fleet.Class), Limits: u.fleet.Limits, Network: network, ConnectionLog: u.state.Agent.ID,
	})
	if err != nil {
		failed := &agent.BootStep{Name: "machine", State: string(pod.StepFailed), DurationMS: time.Since(start).Milliseconds(), Detail: err.Error()}
		last, cancel := journal.Outliving(ctx)
		defer cancel()
		return nil, errors.Join(machineFault(err), u.record(last, failed))
	}
	return m, u.record(ctx, &agent.BootStep{Name: "machine", State: string(pod.StepDone), DurationMS: time.Since(start).Milliseconds()})
}

// connect dials the machine and boots it.
func (u *startup) connect(ctx context.Context, m machine.Machine) error {
	set, until, err := u.fleet.variables(ctx, u.state.Agent)
	if err != nil {
		return err
	}
	l := u.fleet.machines.Use(m.ID())
	h := &readyMachine{id: m.ID(), token: u.fleet.token("exec", m.ID()), folders: agent.Folders(u.state.Agent.Repos), repos: several(u.state.Agent.Repos), traced: u.fleet.Spans != nil, revoke: func() {}, letGo: func() { u.fleet.machines.Leave(m.ID(), l) }, stale: func() {}}
	u.machine, u.set = h, set
	if err := u.bootOver(ctx, l, m); err != nil {
		h.letGo()
		h.revoke()
		return err
	}
	h.keep = func(ctx context.Context) error { return u.fleet.keep(ctx, u.state, m.ID(), h.conn) }
	h.hookSandbox = func(ctx context.Context, a agent.Agent) (*sandbox.Policy, error) {
		return u.fleet.sandboxPolicy(ctx, a, SandboxHooks)
	}
	h.gitSandbox = func(ctx context.Context) (*sandbox.Policy, error) { return u.fleet.gitSandbox(ctx, u.state.Agent) }
	h.mcp = execclient.NewMCP(h.conn, u.fleet.token("exec", m.ID()))
	h.mcpSandbox = func(ctx context.Context, a agent.Agent) (*sandbox.Policy, error) {
		return u.fleet.sandboxPolicy(ctx, a, SandboxMCP)
	}
	h.enforced = u.fleet.Sandbox != nil && u.fleet.Sandbox(cmp.Or(u.state.Agent.Class, u.fleet.Class))
	h.rules = execclient.NewRules(h.conn, u.fleet.token("exec", m.ID()))
	h.hooks, h.people = execclient.NewHooks(h.conn, u.fleet.token("exec", m.ID())), u.fleet.hooksOf
	h.calls = execclient.NewCalls(h.conn.OpenExec, u.fleet.token("exec", m.ID()), execclient.Redact(u.fleet.redactor(u.state, m.ID())), execclient.Trace(u.traceparent(u.state)))
	if !until.IsZero() {
		h.keepFresh(u.ctx, func(ctx context.Context) { u.keepFresh(ctx, h, m.ID(), u.branches, u.state, until) })
	}
	return nil
}

// bootOver dials and boots the machine over its link.
func (u *startup) bootOver(ctx context.Context, l *Connection, m machine.Machine) error {
	l.Lock()
	defer l.Unlock()
	conn, err := l.Dial(ctx, m, gateway.Of(u.fleet.Gateway, u.state.Agent.ID), u.fleet.connection(u.state, m.ID())...)
	if unstarted, ok := errors.AsType[UnstartedError](err); ok {
		return u.unstartable(ctx, m, u.state, unstarted.Cause)
	}
	if err != nil {
		return machineFault(lostError(err))
	}
	if err := u.fleet.renewPolicy(ctx, m, u.state.Egress); err != nil {
		return machineFault(err)
	}
	u.machine.conn = conn
	return u.boot(ctx)
}

// boot makes pod-daemon do the missing boot steps, and journals them.
func (u *startup) boot(ctx context.Context) error {
	h, e := u.machine, u.plan.Environment
	registries, err := u.fleet.pullHosts(u.state)
	if err != nil {
		return err
	}
	b := pod.Boot{Registries: registries, ExecToken: u.fleet.token("exec", h.id), User: e.User, Env: environ(e, u.state, u.set), Trace: u.fleet.Spans != nil, Embedding: u.fleet.embeddingModel()}
	if len(u.state.Agent.Repos) > 0 {
		reached := u.fleet.Gateway.Reach(ctx, u.fleet.reachRequest(u.state, e))
		h.reads, b.Hosts = reached.Read, reached.Hosts
		if !u.state.Used {
			h.refused = reached.Refused
		}
		credential, err := u.fleet.Gateway.Grant(u.grant(h, u.state, u.branches))
		if err != nil {
			return err
		}
		b.GitCredential = credential
		h.revoke = func() { u.fleet.Gateway.Revoke(b.GitCredential) }
		b.Checkout, b.Others = u.fleet.checkouts(u.state, u.branches)
	}
	status, err := h.conn.Status(ctx)
	if err != nil {
		return lostError(err)
	}
	quiet := status.Booted && status.BootID == u.state.BootID // the machine is already up, so there is nothing to report
	var recordErr error
	ready, err := h.conn.Boot(ctx, b, func(step pod.Step) {
		if recordErr == nil && !quiet {
			recordErr = u.record(ctx, journalled(step))
		}
	})
	if err != nil {
		return errors.Join(stepFault(err), recordErr)
	}
	if recordErr != nil {
		return recordErr
	}
	if err := u.give(ctx, !status.ExecRunning); err != nil {
		return err
	}
	u.ready = ready
	return lostError(h.conn.SetMetadata(ctx, metadata(u.state, u.branches)))
}

// give sets the variables in a machine that was already running, and removes
// variables that no longer exist. If fresh is true, the boot has already set
// them.
func (u *startup) give(ctx context.Context, fresh bool) error {
	if u.fleet.Variables == nil {
		return nil
	}
	names := slices.Sorted(maps.Keys(u.set.Vars))
	gone := slices.DeleteFunc(slices.Clone(u.state.Given), func(name string) bool { return slices.Contains(names, name) })
	if !fresh && len(names)+len(gone) > 0 {
		if err := execclient.SetEnvironment(ctx, u.machine.conn, u.fleet.token("exec", u.machine.id), u.set.Environ(), gone); err != nil {
			return lostError(err)
		}
	}
	if slices.Equal(names, u.state.Given) {
		return nil
	}
	return u.record(ctx, &agent.VariablesGiven{Names: names})
}

// setUp sets up a machine that has booted, and journals that the machine is
// ready.
func (u *startup) setUp(ctx context.Context) error {
	h, ready := u.machine, u.ready
	h.boot = ready.BootID
	if ready.BootID == u.state.BootID {
		if bodies := wakingOf(u.state); len(bodies) > 0 {
			return u.record(ctx, bodies...)
		}
		return nil
	}
	var bodies []agent.Body
	if u.state.Hibernated {
		bodies = append(bodies, &agent.MachineWoken{MachineID: h.id, BootID: ready.BootID})
	}
	bodies = append(bodies, &agent.MachineReady{
		MachineID: h.id, BootID: ready.BootID, BaseCommit: ready.BaseCommit, Branch: ready.Branch, Others: others(ready), User: ready.User,
		Facilities: (*agent.Facilities)(ready.Facilities),
	})
	for _, note := range append(h.refused, ready.Notes...) {
		bodies = append(bodies, &agent.Notice{Text: note})
	}
	if notice := whatIsLost(u.state); notice != "" {
		bodies = append(bodies, &agent.Notice{Text: notice})
	}
	notices, err := u.startEnvironment(ctx)
	if err != nil {
		return err
	}
	for _, notice := range notices {
		bodies = append(bodies, &agent.Notice{Text: notice})
	}
	began := u.state.Agent.Layer != ""
	if err := u.record(ctx, bodies...); err != nil {
		return err
	}
	if began { // the disk from which it started is no longer needed
		u.fleet.forgetForks(ctx)
	}
	return nil
}

// startEnvironment sets up a machine after a new boot, unless it was already
// set up in this boot, and returns a message for the agent.
func (u *startup) startEnvironment(ctx context.Context) (notices []string, err error) {
	h, e := u.machine, u.plan.Environment
	if u.state.Alive(u.ready.BootID) {
		return []string{agent.ForkedAlive}, nil // the copied processes include those that the environment starts
	}
	if u.state.Fork != nil && u.state.Fork.BootID != "" && !u.state.Settled {
		notices = []string{agent.ForkedWithout}
	}
	now, err := u.fleet.State(ctx, u.agentID) // a visitor may have woken the machine meanwhile
	if err != nil {
		return nil, err
	}
	if now.Started != u.ready.BootID {
		failures, err := u.fleet.setUp(ctx, setUpRequest{
			conn: h.conn, machineID: h.id, agent: u.state.Agent, environment: e, install: u.base.Install, record: u.record,
		})
		if err != nil {
			return nil, err
		}
		notices = append(notices, failures...)
	}
	if u.state.Review != nil && !u.state.Used { // after the install command, which must not run files of the change
		failure, err := applyChange(ctx, h.conn, u.state.Review.Patch)
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
