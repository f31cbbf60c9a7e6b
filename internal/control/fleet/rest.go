package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/machine"
	"aloft/internal/control/store"
	"aloft/internal/fault"
)

// warnBefore is the time between the warning to a machine's users and the
// removal of the machine. If machines are kept for less than twice that time,
// the warning comes later.
const warnBefore = 24 * time.Hour

// Rest checks all unused machines once. It puts machines to sleep that have
// been idle for Config.Idle. After a warning, it removes machines that have
// been unused for Config.Retention. A run, a visitor in the machine, and a
// connection to one of its ports count as use.
func (f *Fleet) Rest(ctx context.Context) {
	ids, err := f.Runtime.List(ctx)
	if err != nil {
		f.Logger.Error("cannot list the machines", "error", err)
		return
	}
	for _, id := range ids {
		agentID, ok := AgentOf(id)
		if !ok {
			continue // not created by this server
		}
		err := fault.Contain(func() error { return f.restOne(ctx, agentID, id) })
		if err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrMoved) && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, machine.ErrNotFound) {
			f.Logger.Error("cannot put an idle machine to sleep", "machine", id, "error", err)
		}
	}
}

// restAlways calls Rest periodically until ctx ends.
func (f *Fleet) restAlways(ctx context.Context) {
	if f.Idle <= 0 && f.Retention == nil {
		return
	}
	every := store.LeaseTTL
	if f.Idle > 0 {
		every = min(every, max(f.Idle/2, time.Second))
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f.Rest(ctx)
		}
	}
}

func (f *Fleet) restOne(ctx context.Context, agentID, id string) error {
	a, err := f.Agents.Agent(ctx, agentID)
	if err != nil {
		return err
	}
	used := a.UpdatedAt
	for _, at := range []time.Time{f.machines.LastUse(id), f.began} { // this server does not know about use before its own start
		if at.After(used) {
			used = at
		}
	}
	idle, unused := time.Since(used), time.Since(a.UpdatedAt)
	kept, err := f.retention(ctx, a)
	if err != nil {
		return err
	}
	old := kept > 0 && idle > warning(kept) && unused > kept-warning(kept)
	if (f.Idle <= 0 || idle < f.Idle) && !old {
		return nil
	}
	_, err = f.alone(ctx, a, id, func(state *agent.State) error {
		if old {
			return f.expire(ctx, state, kept, unused)
		}
		return f.hibernate(ctx, state)
	})
	return err
}

// alone calls do with the machine of an idle agent, while nobody else can use
// the machine. ok is false if the machine is in use.
func (f *Fleet) alone(ctx context.Context, a agent.Agent, id string, do func(*agent.State) error) (ok bool, err error) {
	working := f.workOn(a.ID) != nil
	run, err := f.Agents.Run(ctx, a.ID, a.LatestRunID)
	if err != nil || working || !run.Status.Ended() {
		return false, err
	}
	giveBack, alone := f.machines.Alone(id)
	if !alone {
		return false, nil
	}
	defer giveBack()
	lease := store.LeaseOn(a.ID)
	if ok, err := f.Leases.Acquire(ctx, lease, f.Owner, store.LeaseTTL); err != nil || !ok {
		return false, err // another server works on the agent
	}
	renewed, over := context.WithCancel(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() { f.renewLease(renewed, lease) })
	defer func() {
		over()
		renewing.Wait()
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.works[a.ID] == nil { // otherwise the worker now owns the lease
			_ = f.Leases.Release(context.WithoutCancel(ctx), lease, f.Owner) // on failure the lease expires
		}
	}()
	state, err := f.State(ctx, a.ID)
	if err != nil || state.MachineID != id {
		return false, err
	}
	return true, do(state)
}

// leaveLimit is how long to wait for users that are about to leave a machine.
const leaveLimit = 5 * time.Second

// deserted waits briefly until the worker and all visitors have left the
// machine of an agent whose run has ended. The end of a run is journaled before
// its worker is done, and a visitor's disconnect may not have been noticed yet.
func (f *Fleet) deserted(ctx context.Context, agentID, machineID string) {
	ctx, cancel := context.WithTimeout(ctx, leaveLimit)
	defer cancel()
	for {
		over := f.machines.Leaving(machineID)
		if w := f.workOn(agentID); w != nil {
			over = w.done
		}
		if over == nil {
			return
		}
		select {
		case <-over:
		case <-ctx.Done():
			return
		}
	}
}

// renewLease renews a lease until ctx ends, because saving a large memory takes
// long.
func (f *Fleet) renewLease(ctx context.Context, lease string) {
	tick := time.NewTicker(store.LeaseRenew)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if _, err := f.Leases.Acquire(ctx, lease, f.Owner, store.LeaseTTL); err != nil && ctx.Err() == nil {
				f.Logger.Error("cannot renew the lease", "lease", lease, "error", err)
			}
		}
	}
}

// retention returns how long an unused machine of the agent is kept.
func (f *Fleet) retention(ctx context.Context, a agent.Agent) (time.Duration, error) {
	if f.Retention == nil {
		return 0, nil
	}
	return f.Retention(ctx, a)
}

func warning(kept time.Duration) time.Duration { return min(warnBefore, kept/2) }

// journal appends an event, unless other events were appended since state was
// read.
func (f *Fleet) journal(ctx context.Context, state *agent.State, body agent.Body) error {
	head := state.Agent.Head
	done, err := f.Journal.Append(ctx, store.Append{AgentID: state.Agent.ID, Events: []agent.Event{{Body: body}}, IfHead: &head})
	for _, e := range done {
		state.Apply(e)
	}
	return err
}

// expire warns that an unused machine will be removed. After the retention
// period, kept, it removes the machine.
func (f *Fleet) expire(ctx context.Context, state *agent.State, kept, unused time.Duration) error {
	switch {
	case state.Expires.IsZero():
		// Wait for the full warning period even if the warning is late, because
		// the server may have been down for weeks.
		at := time.Now().Add(max(warning(kept), kept-unused))
		return f.journal(ctx, state, &agent.MachineExpiring{MachineID: state.MachineID, At: at.UTC()})
	case time.Now().Before(state.Expires):
		return f.hibernate(ctx, state)
	}
	id := state.MachineID
	if err := f.journal(ctx, state, &agent.MachineExpired{MachineID: id}); err != nil {
		return err
	}
	if err := f.destroy(ctx, id); err != nil {
		return fmt.Errorf("remove an expired machine: %w", err)
	}
	f.Logger.Info("removed an unused machine", "machine", id)
	return nil
}
