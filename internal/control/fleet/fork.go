package fleet

import (
	"context"
	"errors"

	"aloft/internal/agent"
	"aloft/internal/control/build"
	"aloft/internal/control/layer"
	"aloft/internal/control/loop/journal"
	"aloft/internal/control/machine"
	"aloft/internal/control/pod"
	"aloft/internal/fault"
)

// Layers stores saved disks. [layer.Store] implements it.
type Layers interface {
	Layer(id string) (layer.Layer, error)
	List() ([]layer.Layer, error)
	Delete(id string) error
}

// Fork saves the disk of the agent's machine for new agents. head is the last
// event that the new agents know. Fork returns a conflict if the agent has
// later events, is working, or has a visitor in its machine. Fork puts the
// machine to sleep; it wakes when needed. If alive is true, Fork also saves the
// processes if possible, and bootID identifies their boot. The layer is kept
// until release is called and every agent that starts from it has started.
func (f *Fleet) Fork(ctx context.Context, agentID string, head int64, alive bool) (layerID, bootID string, release func(), err error) {
	id := layer.NewID(layer.Fork)
	f.mu.Lock()
	if f.forking == nil {
		f.forking = map[string]bool{}
	}
	f.forking[id] = true
	f.mu.Unlock()
	release = func() {
		f.mu.Lock()
		delete(f.forking, id)
		f.mu.Unlock()
		f.forgetForks(context.WithoutCancel(ctx))
	}
	bootID, err = f.save(ctx, agentID, id, head, alive)
	if err != nil {
		release()
		return "", "", nil, err
	}
	return id, bootID, release, nil
}

// save saves the disk as the layer with the given id and, if alive is true, the
// memory.
func (f *Fleet) save(ctx context.Context, agentID, id string, head int64, alive bool) (bootID string, err error) {
	a, err := f.Agents.Agent(ctx, agentID)
	if err != nil {
		return "", err
	}
	state, err := f.State(ctx, agentID)
	if err != nil {
		return "", err
	}
	if state.MachineID == "" {
		return "", noMachine()
	}
	m, err := f.Runtime.Open(ctx, state.MachineID)
	if errors.Is(err, machine.ErrNotFound) {
		return "", noMachine()
	}
	if err != nil {
		return "", machineFault(err)
	}
	saver, ok := m.(interface {
		machine.Snapshotter
		machine.Measured
	})
	if !ok || f.Layers == nil {
		return "", fault.NotImplemented("machines of this server's runtime cannot be saved").Named("no_snapshots")
	}
	if state.Run.Status.Ended() {
		f.deserted(ctx, agentID, m.ID())
	}
	alone, err := f.alone(ctx, a, m.ID(), func(state *agent.State) error {
		if state.Agent.Head != head {
			return fault.Conflict("the agent has continued meanwhile").Named("agent_moved").Hint("try again")
		}
		if !state.Used {
			return noMachine() // the machine was never ready, so there is nothing to save
		}
		if !state.Hibernated || saver.Running() {
			if err := f.putToSleep(ctx, saver, state); err != nil {
				return machineFault(err)
			}
		}
		if err := saver.Freeze(ctx, id); err != nil {
			return machineFault(err)
		}
		if live, ok := m.(machine.Checkpointer); ok && alive && live.Asleep() {
			if err := live.KeepMemory(ctx, id); err != nil {
				return machineFault(err)
			}
			bootID = state.LastBootID
		}
		return f.journal(ctx, state, &agent.MachineSaved{MachineID: m.ID(), SnapshotID: id})
	})
	if err == nil && !alone {
		return "", fault.Conflict("the agent is working or somebody is in its machine, and saving a disk stops the machine").Named("machine_busy").
			Hint("wait until the run has ended, and close terminals and forwarded ports")
	}
	return bootID, err
}

// forgetForks deletes saved disks whose agents have started or were never
// created.
func (f *Fleet) forgetForks(ctx context.Context) {
	if f.Layers == nil {
		return
	}
	all, err := f.Layers.List()
	if err != nil {
		f.Logger.Error("cannot list the saved disks", "error", err)
		return
	}
	for _, l := range all {
		if !layer.IsFork(l.ID) {
			continue
		}
		f.mu.Lock()
		waits := f.forking[l.ID]
		f.mu.Unlock()
		if !waits {
			waits, err = f.Agents.AwaitLayer(ctx, l.ID)
		}
		if err == nil && !waits {
			err = f.Layers.Delete(l.ID)
		}
		if err != nil && !fault.Is(err, fault.KindNotFound) {
			f.Logger.Error("cannot delete a saved disk", "layer", l.ID, "error", err)
		}
	}
}

// base returns the base of a new machine: for a fork's first machine, the saved
// disk of the original agent, otherwise the plan's base.
func (w *Work) base(ctx context.Context, p build.Plan, state *agent.State, record journal.Record) (build.Base, error) {
	if state.Agent.Layer == "" {
		return w.prepare(ctx, p, record)
	}
	if w.fleet.Layers != nil {
		l, err := w.fleet.Layers.Layer(state.Agent.Layer)
		if err == nil {
			return build.Base{Image: l.Image, Layer: l.ID}, nil
		}
		if !fault.Is(err, fault.KindNotFound) {
			return build.Base{}, err
		}
	}
	const words = "The saved disk for this machine is gone, and a new machine was created: " +
		"the tree is at the commit where the work started, and what the conversation says about files may be wrong."
	if err := record(ctx, &agent.BootStep{Name: "fork", State: string(pod.StepFailed), Detail: "the saved disk is gone"}, &agent.Notice{Text: words}); err != nil {
		return build.Base{}, err
	}
	return w.prepare(ctx, p, record)
}

// continues returns the agent from which this agent inherits the checkout on
// its disk, or "".
func continues(state *agent.State) string {
	if state.Agent.Layer == "" {
		return ""
	}
	return state.Agent.ForkedFrom
}
