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
	catalogue "aloft/internal/tool"
	"aloft/internal/wire/agentv1"
)

// maxCalls bounds the calls that run or whose results wait to be acknowledged.
const maxCalls = 512

// maxReason bounds, in bytes, the reason of an abort.
const maxReason = 1 << 10

// errStopping is why calls end when exec-daemon is told to stop.
var errStopping = errors.New("exec-daemon is stopping")

// errAcknowledged is why a result is not kept.
var errAcknowledged = errors.New("the call was acknowledged while it ran")

// calls is every call that this machine knows. It is what makes a call run
// exactly once. Its methods are safe for concurrent use.
type calls struct {
	record  *callLog
	tools   map[string]tool.Tool
	log     *slog.Logger
	tracing *tracing

	ctx     context.Context // of every call that runs
	cancel  context.CancelCauseFunc
	running sync.WaitGroup

	mu    sync.Mutex
	known map[string]*call    // running, or with a result that waits
	acked map[string]struct{} // acknowledged; grows by one id a call
}

// newCalls takes up what record remembers. outputDir is where results go that
// are too long.
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
		// Nothing is cut before its secrets are out.
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

// ids are the calls that run, or whose results wait to be acknowledged.
func (c *calls) ids() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.known))
}

// lacking names the tools that cannot work here.
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

// leftover is a call that an earlier exec-daemon started. Its result is the
// one that was kept, else it is not known.
func (c *calls) leftover(id string) *call {
	left := answered(nil)
	left.id = id
	left.load = func() *agentv1.ExecCompleted {
		if result, err := c.record.result(id); err == nil {
			return result
		}
		return failure(id, nil, "exec-daemon was restarted while this call ran; whether it had its effect is not known. "+
			"Look at what it should have changed before you try it again")
	}
	return left
}

// attach returns the call of that id, and runs it if it is new. Without a tool
// call it runs nothing: a new id is answered as never started. What cannot run is
// answered by a call that is done, with an error for the model.
func (c *calls) attach(id string, asked *agentv1.ToolCall) *call {
	if !validCallID(id) {
		// The id is not repeated: it has no form that could be trusted.
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
		return answered(failure(id, asked, "the call was not run: %d calls run or wait to be acknowledged", maxCalls))
	}
	name, err := toolName(asked)
	if err != nil {
		return answered(failure(id, asked, "%v", err))
	}
	t, ok := c.tools[name]
	if !ok {
		return answered(failure(id, asked, "%v", notAvailable(asked, name)))
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

// work runs the call to its end.
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
	if _, over := c.acked[of.id]; over { // while it ran: nobody will ask for the result
		err = errors.Join(err, c.record.drop(of.id), errAcknowledged)
	}
	if err != nil {
		log.Warn("result not kept on disk", "error", err)
		of.finish(result, nil)
		return
	}
	of.finish(result, c.leftover(of.id).load)
}

// acknowledge forgets the call's result; the id is never run again.
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

// abort ends the call if it runs.
func (c *calls) abort(id, reason string) {
	c.mu.Lock()
	of := c.known[id]
	c.mu.Unlock()
	if of == nil || of.cancel == nil {
		return
	}
	if reason = cut(reason, maxReason); reason == "" {
		reason = "no reason was given"
	}
	of.cancel(fmt.Errorf("aborted: %s", reason))
}

// stop ends every call and waits for them, but no longer than grace. No call
// starts after it.
func (c *calls) stop(grace time.Duration) {
	c.mu.Lock()
	c.cancel(errStopping)
	c.mu.Unlock()
	if !within(grace, c.running.Wait) {
		c.log.Error("calls did not end in time", "grace", grace)
	}
}

// within waits for what wait waits for, no longer than limit, and reports
// whether it came.
func within(limit time.Duration, wait func()) bool {
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

// failure is the result of a call that did not do what was asked.
func failure(id string, asked *agentv1.ToolCall, format string, args ...any) *agentv1.ExecCompleted {
	message := fmt.Sprintf(format, args...)
	return &agentv1.ExecCompleted{CallId: id, ToolCall: failed(asked, message), Text: message, IsError: true}
}
