package execclient

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"aloft/internal/control/machinerpc"
	"aloft/internal/conversation"
	"aloft/internal/fault"
	"aloft/internal/policy/sandbox"
	"aloft/internal/redact"
	"aloft/internal/tool"
	"aloft/internal/wire/agentv1"
)

// ErrCatalogue is wrapped by errors of calls to a machine whose tool catalogue
// differs from the model's.
var ErrCatalogue = errors.New("the machine's tools differ from this server's")

// ErrHooked is returned for a call that was sent without having run hooks. The
// machine did not start it, because the machine has hooks.
var ErrHooked = errors.New("the machine has hooks that were not run for the call")

// callTimeout is the timeout for the result of a call. Every tool has its own,
// shorter timeout.
const callTimeout = time.Hour

// errEndless is the error of a call whose result does not arrive in time.
var errEndless = fault.Unavailable("the machine does not complete a tool call").Named("machine_stuck").
	Hint("something in the task may have replaced exec-daemon: check the last tool calls, then send a follow-up")

// abortGrace is how long an aborted call may take to return its result.
const abortGrace = 2 * time.Second

// Delta is a piece of a running call's output, at most 256 KiB.
type Delta struct {
	Stdout, Stderr string
	Seq            uint64 // counts from 1; a gap means that output was dropped because it came too fast
}

// Calls runs tool calls in a machine over one stream, and reopens the stream
// when it breaks. Its methods are safe for concurrent use.
type Calls struct {
	dial     machinerpc.Dial
	token    string
	trace    string        // as in [Trace]
	timeout  time.Duration // timeout for the result of a call
	redactor atomic.Pointer[redact.Redactor]

	ctx    context.Context // ends with Close
	cancel context.CancelCauseFunc
	ended  chan struct{} // closed when keep has returned
	work   chan struct{} // holds a token when there may be a reason to connect

	mu    sync.Mutex
	calls map[string]*inFlight
	acks  map[string]*ack
	boots []chan hello // channels of callers that wait for the hello
	link  *link        // nil while there is no stream
}

// ack is an acknowledgement that the machine has not confirmed yet.
type ack struct {
	abort   bool   // abort the call first, since its result is not needed
	beat    uint64 // heartbeat sent after the ack; the reply to it confirms the ack
	breaks  int    // number of streams that broke before the machine confirmed the ack
	waiters []chan error
}

type hello struct {
	bootID  string
	lacking []string
	known   []string
	err     error

	checksHooks bool
}

// NewCalls returns a client for tool calls. dial connects to exec-daemon, and
// token authenticates. The client connects on the first call. An error of dial
// that wraps [pod.ErrLost] is final. The caller must call Close.
func NewCalls(dial machinerpc.Dial, token string, all ...Option) *Calls {
	o := optionsOf(all)
	cs := &Calls{
		dial: dial, token: token, trace: o.trace, timeout: o.timeout,
		ended: make(chan struct{}),
		work:  make(chan struct{}, 1),
		calls: make(map[string]*inFlight),
		acks:  make(map[string]*ack),
	}
	cs.redactor.Store(o.redactor)
	cs.ctx, cs.cancel = context.WithCancelCause(context.Background())
	go func() {
		defer close(cs.ended)
		cs.keep()
	}()
	return cs
}

// Apply replaces the redactor by that of the given options, for calls that
// start from now on. The other options are fixed by [NewCalls].
func (cs *Calls) Apply(all ...Option) { cs.redactor.Store(optionsOf(all).redactor) }

// Call runs the call, or attaches to it if the machine knows its id. onDelta
// gets output in order, each piece at most once, in the goroutine of Call; it
// may be nil. The machine measures the duration.
//
// When ctx ends, Call aborts the call. It returns the result if that arrives
// within two seconds, and otherwise the cause of ctx. If ctx has already ended,
// the call is not sent. A call with invalid arguments is not sent either; its
// result describes the error. The error wraps [ErrHooked] if the call is
// unhooked and the machine has hooks, [pod.ErrLost] if the machine is gone, and
// [ErrCatalogue] if its tools differ. It is a fault of kind Conflict if a call
// with the same id is in progress, and machine_stuck if the result does not
// arrive within an hour.
func (cs *Calls) Call(ctx context.Context, c conversation.ToolCall, onDelta func(Delta)) (tool.Result, time.Duration, error) {
	return cs.call(ctx, c, outside, onDelta)
}

// CallSandboxed is like Call, but runs the call in the machine's sandbox. If
// the sandbox cannot enforce the policy, nothing runs, and the result says so.
// A call with a Guard runs outside of the sandbox, unless the machine's check
// of the Guard fails.
func (cs *Calls) CallSandboxed(ctx context.Context, c conversation.ToolCall, p sandbox.Policy, onDelta func(Delta)) (tool.Result, time.Duration, error) {
	return cs.call(ctx, c, machinerpc.EncodePolicy(p), onDelta)
}

func (cs *Calls) call(ctx context.Context, c conversation.ToolCall, sandbox *agentv1.SandboxPolicy, onDelta func(Delta)) (tool.Result, time.Duration, error) {
	if !validID(c.ID) {
		return tool.Result{}, 0, errInvalidID()
	}
	message, err := EncodeCall(c)
	if err != nil {
		return tool.Failed("%v", err), 0, nil
	}
	confine(message, sandbox)
	guardLine(message, c.Guard)
	of := newInFlight(c.ID, message)
	of.unhooked = c.Unhooked
	if cause := context.Cause(ctx); cause != nil {
		cs.abort(of, cause) // the call may be running for an earlier client
		return tool.Result{}, 0, fmt.Errorf("call %s: %w", c.ID, cause)
	}
	done, err := cs.follow(ctx, of, onDelta)
	if err != nil {
		return tool.Result{}, 0, err
	}
	if c.Unhooked && done.GetHooked() { // ignore the flag on other calls: the machine lies
		return tool.Result{}, 0, fmt.Errorf("call %s: %w", c.ID, ErrHooked)
	}
	return resultOf(answerTo(message, done)), machinerpc.Duration(done.GetDurationMs()), nil
}

// Attach waits for the call with that id like Call, but never starts it:
// started is false if the machine does not know the call. If ctx has already
// ended, Attach aborts the call; it still returns a result that arrives within
// two seconds.
func (cs *Calls) Attach(ctx context.Context, id string, onDelta func(Delta)) (r tool.Result, d time.Duration, started bool, err error) {
	if !validID(id) {
		return r, 0, false, errInvalidID()
	}
	done, err := cs.follow(ctx, newInFlight(id, nil), onDelta)
	if err != nil {
		return r, 0, false, err
	}
	return resultOf(done), machinerpc.Duration(done.GetDurationMs()), !done.GetNeverStarted(), nil
}

// follow sends the call and waits until it ends.
func (cs *Calls) follow(ctx context.Context, of *inFlight, onDelta func(Delta)) (*agentv1.ExecCompleted, error) {
	if err := cs.begin(of); err != nil {
		return nil, err
	}
	defer cs.end(of)

	done := ctx.Done()
	endless := time.NewTimer(cs.timeout)
	defer endless.Stop()
	var cause error // why the call was aborted
	var grace, quiet <-chan time.Time
	abort := func(why error) {
		cause, done = why, nil
		endless.Stop()
		cs.abort(of, why)
		grace = time.After(abortGrace)
	}
	heard, last := newOutputs(cs.redactor.Load()), uint64(0)
	for {
		select {
		case <-of.news:
			deltas, over, result, err := of.take()
			for _, d := range deltas {
				last = d.Seq
				if d, ok := heard.next(d); ok && onDelta != nil {
					onDelta(d)
				}
			}
			if err != nil {
				return nil, err
			}
			if over {
				if d, ok := heard.rest(last); ok && onDelta != nil {
					onDelta(d)
				}
				return result, nil
			}
			quiet = nil
			if heard.holds() {
				quiet = time.After(redact.Quiet)
			}
		case <-quiet:
			quiet = nil
			if d, ok := heard.idle(last); ok && onDelta != nil {
				onDelta(d)
			}
		case <-done:
			abort(context.Cause(ctx))
		case <-endless.C:
			abort(errEndless)
		case <-grace:
			return nil, fmt.Errorf("call %s: %w", of.id, cause)
		}
	}
}

func errInvalidID() error {
	return fault.Invalid("the id of a call must be 1 to %d characters of [A-Za-z0-9_-]", maxID)
}

// Ack tells the machine that the call's result is stored, so that the machine
// can drop it. Ack returns when the machine has confirmed this, or when ctx
// ends; in the latter case the client keeps trying. A call may be acknowledged
// twice, and need not be known to the machine.
func (cs *Calls) Ack(ctx context.Context, id string) error { return cs.release(ctx, id, false) }

// Drop acknowledges a call whose result nobody needs, and aborts it if it is
// running. It returns under the same conditions as Ack.
func (cs *Calls) Drop(ctx context.Context, id string) error { return cs.release(ctx, id, true) }

func (cs *Calls) release(ctx context.Context, id string, abort bool) error {
	if !validID(id) {
		return errInvalidID()
	}
	arrived := make(chan error, 1)
	cs.mu.Lock()
	if err := context.Cause(cs.ctx); err != nil {
		cs.mu.Unlock()
		return err
	}
	a := cs.acks[id]
	if a == nil {
		a = &ack{abort: abort}
		cs.acks[id] = a
		if cs.link != nil {
			cs.sendAck(cs.link, id, a)
		}
	}
	a.waiters = append(a.waiters, arrived)
	cs.mu.Unlock()
	cs.wake()
	select {
	case err := <-arrived:
		return err
	case <-ctx.Done():
		return fmt.Errorf("acknowledge %s: %w", id, context.Cause(ctx))
	}
}

// BootID returns the id of the machine's current boot, connecting if necessary.
// The machine does not know calls that were sent under another boot id.
func (cs *Calls) BootID(ctx context.Context) (string, error) {
	h, err := cs.meet(ctx)
	return h.bootID, err
}

// Lacking returns the names of the tools that cannot work in the machine,
// connecting if necessary.
func (cs *Calls) Lacking(ctx context.Context) ([]string, error) {
	h, err := cs.meet(ctx)
	return h.lacking, err
}

// ChecksHooks reports whether the machine respects
// [conversation.ToolCall].Unhooked, connecting if necessary.
func (cs *Calls) ChecksHooks(ctx context.Context) (bool, error) {
	h, err := cs.meet(ctx)
	return h.checksHooks, err
}

// Known returns the calls that, when this client last connected, were running
// in the machine or not acknowledged. It connects if necessary.
func (cs *Calls) Known(ctx context.Context) ([]string, error) {
	h, err := cs.meet(ctx)
	return h.known, err
}

func (cs *Calls) meet(ctx context.Context) (hello, error) {
	cs.mu.Lock()
	if cs.link != nil {
		defer cs.mu.Unlock()
		return cs.link.hello, nil
	}
	if err := context.Cause(cs.ctx); err != nil {
		cs.mu.Unlock()
		return hello{}, err
	}
	met := make(chan hello, 1)
	cs.boots = append(cs.boots, met)
	cs.mu.Unlock()
	cs.wake()
	select {
	case h := <-met:
		return h, h.err
	case <-ctx.Done():
		return hello{}, context.Cause(ctx)
	}
}

// errDropped is the cause with which unwanted calls are aborted.
var errDropped = errors.New("the call is no longer needed")

// errClosed is returned by calls in flight when the Calls is closed.
var errClosed = fault.Unavailable("the connection to the machine was closed")

// Close closes the stream. Calls in flight return an error but continue in the
// machine. Closing twice is not an error.
func (cs *Calls) Close() error {
	cs.cancel(errClosed)
	<-cs.ended
	return nil
}

// begin registers a call, and sends it if there is a stream.
func (cs *Calls) begin(of *inFlight) error {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if err := context.Cause(cs.ctx); err != nil {
		return err
	}
	if _, twice := cs.calls[of.id]; twice {
		return fault.Conflict("call %s is already in progress", of.id)
	}
	cs.calls[of.id] = of
	if cs.link != nil {
		of.bootID = cs.link.bootID
		cs.link.send(callElement(of))
	}
	cs.wake()
	return nil
}

func (cs *Calls) end(of *inFlight) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.calls[of.id] == of {
		delete(cs.calls, of.id)
	}
}

func (cs *Calls) abort(of *inFlight, cause error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	of.aborted = cause
	if cs.link != nil {
		cs.link.send(abortElement(of))
	}
}

// sendAck sends an acknowledgement. The caller holds cs.mu.
func (cs *Calls) sendAck(l *link, id string, a *ack) {
	if a.abort {
		l.send(abortElement(&inFlight{id: id, aborted: errDropped}))
	}
	l.send(&agentv1.ExecStreamElement{Element: &agentv1.ExecStreamElement_ExecClientControlMessage{
		ExecClientControlMessage: &agentv1.ExecClientControlMessage{
			Control: &agentv1.ExecClientControlMessage_Ack{Ack: &agentv1.AckCall{CallId: id}},
		},
	}})
	a.beat = l.beat()
}

func (cs *Calls) wake() {
	select {
	case cs.work <- struct{}{}:
	default:
	}
}
