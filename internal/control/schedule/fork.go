package schedule

import (
	"context"
	"errors"

	"aloft/internal/agent"
	"aloft/internal/control/build"
	"aloft/internal/control/layer"
	"aloft/internal/control/loop"
	"aloft/internal/control/machine"
	"aloft/internal/control/pod"
	"aloft/internal/fault"
)

// Layers are the disks that were saved: [layer.Store].
type Layers interface {
	Layer(id string) (layer.Layer, error)
	List() ([]layer.Layer, error)
	Delete(id string) error
}

// Fork saves the disk of the agent's machine for agents that are about to be made
// of it; head is the last event that they know of, and another is a conflict, as
// are an agent that works and a machine that somebody is in: the machine is put
// to sleep for this, and goes on when it is needed. Where alive is asked for and
// its processes are saved, they are kept too, and bootID is their life. The layer
// is kept until release, and from then on for as long as an agent waits to begin
// with it.
func (s *Scheduler) Fork(ctx context.Context, agentID string, head int64, alive bool) (layerID, bootID string, release func(), err error) {
	id := layer.NewID(layer.Fork)
	s.mu.Lock()
	if s.forking == nil {
		s.forking = map[string]bool{}
	}
	s.forking[id] = true
	s.mu.Unlock()
	release = func() {
		s.mu.Lock()
		delete(s.forking, id)
		s.mu.Unlock()
		s.forgetForks(context.WithoutCancel(ctx))
	}
	bootID, err = s.save(ctx, agentID, id, head, alive)
	if err != nil {
		release()
		return "", "", nil, err
	}
	return id, bootID, release, nil
}

// save saves the disk as the layer of that id, and the memory beside it.
func (s *Scheduler) save(ctx context.Context, agentID, id string, head int64, alive bool) (bootID string, err error) {
	a, err := s.Agents.Agent(ctx, agentID)
	if err != nil {
		return "", err
	}
	state, err := s.fold(ctx, agentID)
	if err != nil {
		return "", err
	}
	if state.MachineID == "" {
		return "", noMachine()
	}
	m, err := s.Runtime.Open(ctx, state.MachineID)
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
	if !ok || s.Layers == nil {
		return "", fault.NotImplemented("machines of this server's runtime cannot be saved").Named("no_snapshots")
	}
	if state.Run.Status.Ended() {
		s.deserted(ctx, agentID, m.ID())
	}
	alone, err := s.alone(ctx, a, m.ID(), func(state *agent.State) error {
		if state.Agent.Head != head {
			return fault.Conflict("the agent has gone on meanwhile").Named("agent_moved").Hint("try again")
		}
		if !state.Used {
			return noMachine() // it has never been ready: there is nothing to save
		}
		if !state.Hibernated || saver.Running() {
			if err := s.putToSleep(ctx, saver, state); err != nil {
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
		return s.journal(ctx, state, &agent.MachineSaved{MachineID: m.ID(), SnapshotID: id})
	})
	if err == nil && !alone {
		return "", fault.Conflict("the agent works, or somebody is in its machine, and to save a disk is to stop the machine").Named("machine_busy").
			Hint("wait until the run has ended, and close terminals and forwarded ports")
	}
	return bootID, err
}

// forgetForks gives up the disks that were saved for agents which have begun, or
// which never came to be.
func (s *Scheduler) forgetForks(ctx context.Context) {
	if s.Layers == nil {
		return
	}
	all, err := s.Layers.List()
	if err != nil {
		s.Logger.Error("saved disks cannot be listed", "error", err)
		return
	}
	for _, l := range all {
		if !layer.IsFork(l.ID) {
			continue
		}
		s.mu.Lock()
		waits := s.forking[l.ID]
		s.mu.Unlock()
		if !waits {
			waits, err = s.Agents.AwaitLayer(ctx, l.ID)
		}
		if err == nil && !waits {
			err = s.Layers.Delete(l.ID)
		}
		if err != nil && !fault.Is(err, fault.KindNotFound) {
			s.Logger.Error("a saved disk cannot be given up", "layer", l.ID, "error", err)
		}
	}
}

// base is what a new machine starts from: the disk of another agent, where this
// one was forked with it and has had no machine yet, or what the plan says.
func (w *worker) base(ctx context.Context, p build.Plan, state *agent.State, record loop.Record) (build.Base, error) {
	if state.Agent.Layer == "" {
		return w.prepare(ctx, p, record)
	}
	if w.s.Layers != nil {
		l, err := w.s.Layers.Layer(state.Agent.Layer)
		if err == nil {
			return build.Base{Image: l.Image, Layer: l.ID}, nil
		}
		if !fault.Is(err, fault.KindNotFound) {
			return build.Base{}, err
		}
	}
	const words = "The saved disk that this machine was to begin with is gone, and the machine was made anew: " +
		"the tree is where the work began, and what the conversation says of files does not hold."
	if err := record(ctx, &agent.BootStep{Name: "fork", State: string(pod.StepFailed), Detail: "the saved disk is gone"}, &agent.Notice{Text: words}); err != nil {
		return build.Base{}, err
	}
	return w.prepare(ctx, p, record)
}

// continues is the agent whose checkout, where it is on the disk, this one goes
// on with.
func continues(state *agent.State) string {
	if state.Agent.Layer == "" {
		return ""
	}
	return state.Agent.ForkedFrom
}
