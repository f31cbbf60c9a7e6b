package fleet

import (
	"context"
	"errors"

	"aloft/internal/agent"
	"aloft/internal/control/loop"
	"aloft/internal/control/machine"
)

// StopMachine stops the machine. The disk remains, and a follow-up starts the
// machine again. If a run uses the machine, the run ends with the error why. If
// why is a [machine.DiskLimitError], the run continues instead: the loop
// restarts the machine and tells the model. StopMachine does not wait for the
// journal.
func (f *Fleet) StopMachine(ctx context.Context, id string, why error) error {
	if agentID, ok := AgentOf(id); ok {
		w := f.workOn(agentID)
		over, full := errors.AsType[machine.DiskLimitError](why)
		switch {
		case w != nil && full:
			w.full.Store(&agent.MachineDiskFull{MachineID: id, UsedBytes: over.Used, LimitBytes: over.Limit})
		case w != nil:
			w.cancel(why)
		}
	}
	m, err := f.Runtime.Open(ctx, id)
	if errors.Is(err, machine.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	stops, ok := m.(machine.Measured)
	if !ok {
		return errors.New("this runtime cannot stop a machine from outside")
	}
	return stops.Stop(ctx)
}

// Shortages returns the resources, such as memory, that the agent's machine has
// exhausted. It is [loop.Config.Shortages].
func (w *Work) Shortages(ctx context.Context, state *agent.State) (all []loop.Shortage) {
	if full := w.full.Swap(nil); full != nil {
		all = append(all, full)
	}
	if state.MachineID == "" {
		return all
	}
	m, err := w.fleet.Runtime.Open(ctx, state.MachineID)
	if err != nil {
		return all
	}
	accounted, ok := m.(machine.MemoryAccounted)
	if !ok {
		return all
	}
	o, ok := accounted.OutOfMemory(state.Kills)
	if !ok {
		return all
	}
	hide := w.Redactor(state)
	named := func(list []machine.Process) (out []agent.Process) {
		for _, p := range list[:min(len(list), maxProcesses)] {
			out = append(out, agent.Process{Name: hide.String(p.Name), Bytes: p.Bytes})
		}
		return out
	}
	return append(all, &agent.MachineOutOfMemory{
		MachineID: state.MachineID, Kills: o.Kills - state.Kills, LimitBytes: o.Limit, Killed: named(o.Killed), Largest: named(o.Largest),
		Ended: o.Ended, Container: o.Container,
	})
}

// maxProcesses is the maximum number of processes that an event names.
const maxProcesses = 20
