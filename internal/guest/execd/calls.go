package execd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"aloft/internal/guest/tool"
	"aloft/internal/text"
	catalogue "aloft/internal/tool"
	"aloft/internal/wire/agentv1"
)

// maxCalls limits the number of calls that are running or whose results are not
// acknowledged yet.
const maxCalls = 512

// maxReason limits the reason of an abort, in bytes.
const maxReason = 1 << 10

// errStopping is the cause with which calls are cancelled when exec-daemon
// stops.
var errStopping = errors.New("exec-daemon is stopping")

// errAcknowledged says why a result is not stored.
var errAcknowledged = errors.New("the call was acknowledged while it ran")

// calls tracks every call that was ever made in this machine, so that each runs
// exactly once. Its methods are safe for concurrent use.
type calls struct {
	record  *callLog
	tools   map[string]tool.Tool
	log     *slog.Logger
	tracing *tracing
	hooked  func() bool // reports whether the machine has hooks

	ctx     context.Context // context of all running calls
	cancel  context.CancelCauseFunc
	running sync.WaitGroup

	mu    sync.Mutex
	known map[string]*call    // running, or with an unacknowledged result
	acked map[string]struct{} // acknowledged ids; grows by one per call
}

// newCalls restores the calls recorded in record. outputDir is the folder for
// results that are too long.
func newCalls(record *callLog, tools []tool.Tool, outputDir string, secrets *Secrets, log *slog.Logger, tracing *tracing) (*calls, error) {
	c := &calls{
		record: record, log: log, tracing: tracing,
		tools: make(map[string]tool.Tool),
		known: make(map[string]*call),
		acked: make(map[string]struct{}),
	}
	for _, t := range tools {
		if _, twice := c.tools[t.Name]; twice || t.Name == "" || t.Run == nil {
			return nil, fmt.Errorf("tool %q is registered twice, or is empty", t.Name)
		}
		// The order matters: remove secrets before truncating.
		c.tools[t.Name] = bounded(truncated(redacted(guarded(t, log), secrets), outputDir))
	}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	for _, line := range record.take() {
		switch line.mark {
		case markStarted:
			c.known[line.id] = c.leftover(line.id)
		case markAcknowledged:
			delete(c.known, line.id)
			c.acked[line.id] = struct{}{}
		}
	}
	return c, nil
}

// ids returns the calls that are running or whose results are not acknowledged.
func (c *calls) ids() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.known))
}

// lacking returns the names of the tools that cannot work in this machine.
func (c *calls) lacking() []string {
	var names []string
	for _, spec := range catalogue.Catalogue() {
		t, ok := c.tools[spec.Name]
		if spec.Home == catalogue.Guest && (!ok || t.Lacks != nil && t.Lacks() != nil) {
			names = append(names, spec.Name)
		}
	}
	return names
}

// leftover restores a call that an earlier exec-daemon process started. Its
// result is the stored one, or an error if none was stored.
func (c *calls) leftover(id string) *call {
	left := answered(nil)
	left.id = id
	left.load = func() *agentv1.ExecCompleted {
		if result, err := c.record.result(id); err == nil {
			return result
		}
		return failure(id, nil, catalogue.Restarted)
	}
	return left
}

// attach returns the call with that id, and starts it if it is new. If asked is nil,
// attach starts nothing, and a new id gets a result with never_started. If the call
// cannot be started, attach returns a call that is done, with an error for the model. If
// unhooked is set and the machine has hooks, a new call is not started and its result
// has hooked set.
func (c *calls) attach(id string, asked *agentv1.ToolCall, unhooked bool) *call {
	if !validCallID(id) {
		// Do not repeat the id in the message: it could contain anything.
		return answered(failure("", asked, "the call's id must be 1 to %d characters of [A-Za-z0-9_-]", maxCallID))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, over := c.acked[id]; over {
		return answered(failure(id, asked, "call %s was acknowledged; its result is no longer kept, and it is not run again", id))
	}
	if known, ok := c.known[id]; ok {
		return known
	}
	if asked == nil {
		never := failure(id, nil, "call %s was never started in this machine", id)
		never.NeverStarted = true
		return answered(never)
	}
	if c.ctx.Err() != nil {
		return answered(failure(id, asked, "the call was not run: %v", context.Cause(c.ctx)))
	}
	if len(c.known) >= maxCalls {
		return answered(failure(id, asked, "the call was not run: %d calls are running or waiting to be acknowledged", maxCalls))
	}
	name, err := toolName(asked)
	if err != nil {
		return answered(failure(id, asked, "%v", err))
	}
	t, ok := c.tools[name]
	if !ok {
		return answered(failure(id, asked, "%v", notAvailable(asked, name)))
	}
	if unhooked && c.hooked() {
		hooked := failure(id, asked, "call %s was not started: the machine has hooks", id)
		hooked.Hooked = true
		return answered(hooked)
	}
	if err := c.record.start(id); err != nil {
		c.log.Error("call not recorded", "call", id, "error", err)
		return answered(failure(id, asked, "the call was not run: exec-daemon could not record it; is the disk full?"))
	}
	ctx, cancel := context.WithCancelCause(c.ctx)
	begun := &call{id: id, cancel: cancel}
	c.known[id] = begun
	c.running.Go(func() {
		defer cancel(nil)
		c.work(ctx, begun, t, asked)
	})
	return begun
}

// work runs the call and records its result.
func (c *calls) work(ctx context.Context, of *call, t tool.Tool, asked *agentv1.ToolCall) {
	log := c.log.With("call", of.id, "tool", t.Name)
	log.Debug("call started")
	start := time.Now()
	ctx, end := c.tracing.call(ctx, of.id, t.Name)
	out := t.Run(ctx, asked, of.emit)
	end(out.Error)
	took := time.Since(start)
	result := &agentv1.ExecCompleted{
		CallId: of.id, ToolCall: out.Call, Text: out.Text, IsError: out.Error,
		Pictures: out.Pictures, DurationMs: took.Milliseconds(), Failure: out.Failure,
	}
	log.Debug("call ended", "error", out.Error, "took", took)

	err := c.record.keep(of.id, result)
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, over := c.acked[of.id]; over { // acknowledged while it ran: nobody will ask for the result
		err = errors.Join(err, c.record.drop(of.id), errAcknowledged)
	}
	if err != nil {
		log.Warn("result not kept on disk", "error", err)
		of.finish(result, nil)
		return
	}
	of.finish(result, c.leftover(of.id).load)
}

// acknowledge deletes the call's result; the id is never run again.
func (c *calls) acknowledge(id string) {
	if !validCallID(id) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, over := c.acked[id]; over {
		return
	}
	c.acked[id] = struct{}{}
	delete(c.known, id)
	if err := c.record.forget(id); err != nil {
		c.log.Error("acknowledgement not recorded", "call", id, "error", err)
	}
}

// abort cancels the call if it is running.
func (c *calls) abort(id, reason string) {
	c.mu.Lock()
	of := c.known[id]
	c.mu.Unlock()
	if of == nil || of.cancel == nil {
		return
	}
	if reason = text.Head(reason, maxReason); reason == "" {
		reason = "no reason was given"
	}
	of.cancel(fmt.Errorf("aborted: %s", reason))
}

// stop cancels all calls and waits up to grace for them to end. Afterwards no call can
// start.
func (c *calls) stop(grace time.Duration) {
	c.mu.Lock()
	c.cancel(errStopping)
	c.mu.Unlock()
	if !finishesWithin(grace, c.running.Wait) {
		c.log.Error("calls did not end in time", "grace", grace)
	}
}

// finishesWithin runs wait and reports whether it returned within limit.
func finishesWithin(limit time.Duration, wait func()) bool {
	over := make(chan struct{})
	go func() {
		wait()
		close(over)
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-over:
		return true
	case <-timer.C:
		return false
	}
}

// failure returns the result of a call that failed.
func failure(id string, asked *agentv1.ToolCall, format string, args ...any) *agentv1.ExecCompleted {
	message := fmt.Sprintf(format, args...)
	return &agentv1.ExecCompleted{CallId: id, ToolCall: failed(asked, message), Text: message, IsError: true}
}
