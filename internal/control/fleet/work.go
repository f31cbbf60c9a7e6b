package fleet

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"

	"aloft/internal/agent"
	"aloft/internal/redact"
)

// Work registers that this server works on the open run of an agent and uses
// its machine. [Fleet.Begin] returns it, and [Work.End] ends it.
type Work struct {
	fleet   *Fleet
	agentID string
	ctx     context.Context // context of the work
	cancel  context.CancelCauseFunc
	done    chan struct{} // closed when the work has ended
	current atomic.Pointer[readyMachine]
	ready   chan struct{}                         // closed when the machine was first ready
	once    sync.Once                             // guards closing ready
	origin  string                                // the commit from which a new agent starts
	rulesAt string                                // the commit of the default branch at that time
	full    atomic.Pointer[agent.MachineDiskFull] // why the machine was stopped; nil once the loop knows

	hiding sync.Mutex
	hide   *redact.Redactor  // redacts hidden; nil until needed
	hidden map[string]string // secrets by name
}

// Begin registers that this server works on an agent, so that the agent's machine is not
// put to sleep, saved or removed. ctx is the context of the work. The fleet ends the work
// with cancel if the agent is removed or its machine was stopped. An agent has one Work at
// a time.
func (f *Fleet) Begin(ctx context.Context, agentID string, cancel context.CancelCauseFunc) *Work {
	w := &Work{fleet: f, agentID: agentID, ctx: ctx, cancel: cancel, done: make(chan struct{}), ready: make(chan struct{})}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.works[agentID] = w
	return w
}

// workOn returns this server's work on an agent, or nil if there is none.
func (f *Fleet) workOn(agentID string) *Work {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.works[agentID]
}

// End ends the work.
func (w *Work) End() {
	w.fleet.mu.Lock()
	delete(w.fleet.works, w.agentID)
	w.fleet.mu.Unlock()
	close(w.done)
}

// Done returns a channel that is closed when the work has ended.
func (w *Work) Done() <-chan struct{} { return w.done }

// Leave releases the connection to the machine, which keeps running. If the agent was
// deleted meanwhile, Leave destroys the machine.
func (w *Work) Leave(ctx context.Context) {
	w.letGo()
	w.fleet.sweepAfter(ctx, w.agentID)
}

// Redactor returns the redactor for the arguments of calls that the model is
// writing.
func (w *Work) Redactor(state *agent.State) *redact.Redactor {
	machineID := ""
	if h := w.current.Load(); h != nil {
		machineID = h.id
	}
	values := w.fleet.values(state, machineID)
	w.hiding.Lock()
	defer w.hiding.Unlock()
	if w.hide == nil || !maps.Equal(values, w.hidden) {
		w.hide, w.hidden = redact.New(values), values
	}
	return w.hide
}

// letGo releases the connection to the machine, which keeps running.
func (w *Work) letGo() {
	if h := w.current.Swap(nil); h != nil {
		h.close()
	}
}
