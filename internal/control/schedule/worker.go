package schedule

import (
	"context"
	"errors"
	"iter"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/fleet"
	"aloft/internal/control/loop"
	"aloft/internal/control/model"
	"aloft/internal/control/store"
)

// worker works on the open run of one agent.
type worker struct {
	s       *Scheduler
	agentID string
	ctx     context.Context
	cancel  context.CancelCauseFunc
	machine *fleet.Work
	again   bool // woken while it was working; guarded by s.mu
}

func newWorker(ctx context.Context, s *Scheduler, agentID string) *worker {
	w := &worker{s: s, agentID: agentID}
	// The loop must not mistake the server's shutdown for a cancel request.
	w.ctx, w.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() { w.cancel(loop.ErrStop) })
	w.machine = s.Fleet.Begin(w.ctx, agentID, w.cancel)
	return w
}

// run works until the agent's run has ended. Errors are logged here, and the
// next wake retries.
func (w *worker) run() {
	defer w.cancel(nil)
	log := w.s.Logger.With("agent", w.agentID)
	lease := store.LeaseOn(w.agentID)
	ok, err := w.s.Leases.Acquire(w.ctx, lease, w.s.Owner, store.LeaseTTL)
	if err != nil {
		log.Error("cannot take the lease", "error", err)
		return
	}
	if !ok {
		return // another server works on the agent
	}
	go w.renew(lease)
	defer func() {
		// Release the lease even when the server stops, so that another server
		// takes over at once.
		if err := w.s.Leases.Release(context.WithoutCancel(w.ctx), lease, w.s.Owner); err != nil {
			log.Error("cannot release the lease", "error", err)
		}
	}()
	defer w.machine.Leave(context.WithoutCancel(w.ctx))
	a, err := w.s.Agents.Agent(w.ctx, w.agentID)
	if err != nil {
		if !errors.Is(err, store.ErrNotFound) {
			log.Error("cannot read the agent", "error", err)
		}
		return
	}
	w.s.mu.Lock()
	w.again = false // the loop will read all events from before this point
	w.s.mu.Unlock()
	m, info, modelErr := w.s.Model(a.Model)
	if modelErr != nil {
		m = refuse{modelErr}
	}
	fast, err := w.fastModel()
	if err != nil {
		log.Error("cannot read the team's settings", "error", err)
		return
	}
	tools := w.s.Tools
	tools.Patches, tools.Attribution = w.s.patches, w.s.attribution
	if w.s.Permits != nil {
		if tools.Permits, err = w.s.Permits(w.ctx, w.agentID); err != nil {
			log.Error("cannot read which tools the agent may use", "error", err)
			return
		}
	}
	err = loop.Run(w.ctx, w.agentID, loop.Config{
		Journal: w.s.Journal, Owner: w.s.Owner, Models: loop.Models{Model: m, Info: info, Named: w.s.Model, Fast: fast},
		Machine: w.machine.Ready, Shortages: w.machine.Shortages, Review: w.s.Review,
		Tools: tools,
		Team:  loop.Team{Allowed: w.s.Allowed, Privacy: w.s.Privacy, Rules: w.s.Rules},
		Live:  w.s.Live, Secrets: w.machine.Redactor, Checks: w.s.Checks, Limits: loop.Limits{Repeats: w.s.Repeats},
		Diff: w.s.pushedDiff, Pulls: w.s.Pulls, Logger: log.With("run", a.LatestRunID),
	})
	if err != nil && !errors.Is(err, loop.ErrStop) && !errors.Is(err, store.ErrNotFound) {
		log.Error("the run is left open", "error", err)
	}
	if err == nil {
		w.next(a.LatestRunID)
	}
}

// fastModel returns the reference to the model for small tasks, or "".
func (w *worker) fastModel() (string, error) {
	if w.s.FastModel == nil {
		return "", nil
	}
	return w.s.FastModel(w.ctx)
}

// next starts another worker if the end of the given run has started a queued
// run.
func (w *worker) next(runID string) {
	a, err := w.s.Agents.Agent(context.WithoutCancel(w.ctx), w.agentID)
	if err != nil || a.LatestRunID == runID {
		return // the next tick finds it
	}
	w.s.mu.Lock()
	w.again = true
	w.s.mu.Unlock()
}

// look makes a running worker read the journal again. The caller holds s.mu.
func (w *worker) look() {
	w.again = true
	go func() {
		asked, err := w.cancelAsked()
		if err != nil {
			w.s.Logger.Error("cannot read the journal", "agent", w.agentID, "error", err)
		}
		if asked {
			w.cancel(loop.ErrCancel)
		}
	}()
}

// cancelAsked reports whether the current run was asked to stop.
func (w *worker) cancelAsked() (bool, error) {
	a, err := w.s.Agents.Agent(w.ctx, w.agentID)
	if err != nil {
		return false, err
	}
	run, err := w.s.Agents.Run(w.ctx, w.agentID, a.LatestRunID)
	if err != nil || run.Status.Ended() {
		return false, err
	}
	for after := run.FirstSeq; ; {
		events, err := w.s.Journal.Read(w.ctx, w.agentID, after, 1000)
		if err != nil || len(events) == 0 {
			return false, err
		}
		for _, e := range events {
			after = e.Seq
			if _, ok := e.Body.(*agent.CancelAsked); ok && e.RunID == run.ID {
				return true, nil
			}
		}
	}
}

// renew renews the lease as long as the worker works.
func (w *worker) renew(lease string) {
	t := time.NewTicker(store.LeaseRenew)
	defer t.Stop()
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-t.C:
		}
		ok, err := w.s.Leases.Acquire(w.ctx, lease, w.s.Owner, store.LeaseTTL)
		if err == nil && !ok {
			w.cancel(store.ErrLeaseLost)
			return
		}
	}
}

// refuse replaces a model that is no longer configured. It rejects every
// request.
type refuse struct{ err error }

func (r refuse) Stream(context.Context, model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) { yield(model.Event{}, r.err) }
}
