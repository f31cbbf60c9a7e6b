package inbound

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"aloft/internal/control/due"
	"aloft/internal/control/store"
	"aloft/internal/fault"
	"aloft/internal/text"
)

// Timing and limits of the worker.
const (
	handleWithin  = 2 * time.Minute
	claimedFor    = 5 * time.Minute // longer than an attempt takes
	atOnce        = 16
	trimEvery     = time.Minute
	maxKeptBodies = 256 << 20 // bytes of all bodies of handled events
	maxReason     = 500       // bytes
)

// A Handler acts on changes.
type Handler interface {
	// Changed is called for each event, and again if it fails or the server dies
	// before the result is stored, so it must be idempotent. If the event needs no
	// action, the error is an [Ignored]; other errors are retried.
	Changed(ctx context.Context, c Change) error
}

// A Listener gets every event, even those that change nothing that a [Handler]
// knows.
type Listener interface {
	// Heard is called before the handler, and again if it or the handler fails or
	// the server dies, so it must be idempotent. It returns true if it has acted
	// on the event. Errors other than [Ignored] are retried.
	Heard(ctx context.Context, e Event) (acted bool, err error)
}

// WorkerConfig configures a worker. Inbox, Handler and Owner are required.
type WorkerConfig struct {
	Inbox   *Inbox
	Handler Handler
	Also    Listener // nil for none
	Owner   string   // this server's name
	Logger  *slog.Logger
	Every   time.Duration                    // interval of looking for due events; default a second
	Wait    func(attempts int) time.Duration // delay before the next attempt; by default ten seconds, doubling up to an hour
}

// Worker hands stored events to a handler.
type Worker struct {
	WorkerConfig
	events  *due.Worker[store.InboundEvent]
	trimmed time.Time // time of the last trim
}

// NewWorker returns a worker. Run starts it.
func NewWorker(c WorkerConfig) *Worker {
	if c.Wait == nil {
		c.Wait = due.Backoff
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	w := &Worker{WorkerConfig: c}
	w.events = due.New(due.Config[store.InboundEvent]{
		Claim: func(ctx context.Context, limit int) ([]store.InboundEvent, error) {
			return c.Inbox.Store.ClaimInbound(ctx, c.Owner, claimedFor, limit)
		},
		Release: func(ctx context.Context) error { return c.Inbox.Store.ReleaseInbound(ctx, c.Owner) },
		Attempt: w.attempt, Tend: w.trim, AtOnce: atOnce, Every: c.Every,
		Failed: func(err error) { c.Logger.Error("cannot read inbound events", "error", err) },
	})
	return w
}

// Run handles due events until ctx ends. Events that this server was handling
// when it died are due at once.
func (w *Worker) Run(ctx context.Context) error {
	w.events.Run(ctx)
	return nil
}

// trim removes old events from time to time.
func (w *Worker) trim(ctx context.Context) error {
	if time.Since(w.trimmed) <= trimEvery {
		return nil
	}
	w.trimmed = time.Now()
	return w.Inbox.Store.TrimInbound(ctx, w.trimmed.Add(-store.KeepInboundBodies), w.trimmed.Add(-store.KeepInbound), maxKeptBodies)
}

// attempt handles an event once and records the outcome. An attempt does not
// count if the server's shutdown aborts it.
func (w *Worker) attempt(ctx context.Context, e store.InboundEvent) {
	err := w.handle(ctx, e)
	if ctx.Err() != nil {
		return
	}
	now := time.Now()
	e.Attempts++
	e.NextAt, e.Reason = now, ""
	ignored, isIgnored := errors.AsType[Ignored](err)
	_, permanent := errors.AsType[malformed](err)
	switch {
	case err == nil:
		e.State = store.InboundDone
	case isIgnored:
		e.State, e.Reason = store.InboundIgnored, text.Head(string(ignored), maxReason)
	default:
		e.Reason = text.Head(reasonOf(err), maxReason)
		if e.NextAt = now.Add(w.Wait(e.Attempts)); permanent || e.NextAt.After(e.Until) {
			e.State, e.NextAt = store.InboundFailed, now
		}
	}
	w.Logger.Info("event handled", "event", e.ID, "connection", e.Connection, "kind", e.Kind, "attempt", e.Attempts, "state", e.State, "reason", e.Reason)
	if err := w.Inbox.Store.PutInbound(ctx, w.Owner, e); err != nil && !errors.Is(err, store.ErrNotFound) {
		w.Logger.Error("cannot record an event; it will be handled again", "event", e.ID, "error", err)
	}
}

// malformed is an event that cannot be parsed. It is not retried.
type malformed struct{ error }

// Unwrap returns the cause.
func (m malformed) Unwrap() error { return m.error }

func (w *Worker) handle(ctx context.Context, e store.InboundEvent) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = malformed{fmt.Errorf("handler panicked: %v", p)}
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, handleWithin)
	defer cancel()
	acted, heardErr := w.tell(ctx, e)
	c, err := w.Inbox.parse(e)
	if err == nil {
		err = w.Handler.Changed(ctx, c)
	} else if _, ok := errors.AsType[Ignored](err); !ok {
		err = malformed{fault.Invalid("the event cannot be read: %v", err)}
	}
	_, isMalformed := errors.AsType[malformed](err)
	_, isIgnored := errors.AsType[Ignored](err)
	switch {
	case err != nil && !isMalformed && !isIgnored:
		return err
	case heardErr != nil:
		return heardErr
	case acted: // the event had an effect
		return nil
	}
	return err
}

// tell passes the event to the listener.
func (w *Worker) tell(ctx context.Context, e store.InboundEvent) (acted bool, err error) {
	if w.Also == nil {
		return false, nil
	}
	return w.Also.Heard(ctx, w.Inbox.Describe(e))
}

// reasonOf returns the text of an error without internal details.
func reasonOf(err error) string {
	f := fault.Of(err)
	if errors.Is(err, context.DeadlineExceeded) {
		return "it took too long"
	}
	if f.Advice != "" {
		return f.Message + " (" + f.Advice + ")"
	}
	return f.Message
}
