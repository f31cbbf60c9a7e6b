package execclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"

	"aloft/internal/control/machinerpc"
	"aloft/internal/telemetry"
	"aloft/internal/tool"
	"aloft/internal/wire/agentv1"
	"aloft/internal/wire/agentv1/agentv1connect"
)

// Timing of the stream.
const (
	firstPause = 5 * time.Millisecond   // delay before the second attempt to connect
	maxPause   = 500 * time.Millisecond // delay between further attempts
	comeBack   = 30 * time.Second       // how long exec-daemon may be unreachable
	beatEvery  = 10 * time.Second
	silence    = 45 * time.Second // silence after which a stream counts as dead
)

// maxElement is the maximum size of a message from the machine, in bytes. A
// result with five images fits.
const maxElement = 32 << 20

// Errors that end a stream.
var (
	errSilent  = errors.New("exec-daemon does not answer heartbeats")
	errUnheard = errors.New("exec-daemon did not say hello first")
)

// link is a stream to exec-daemon whose hello has been received.
type link struct {
	stream *connect.BidiStreamForClient[agentv1.ExecStreamElement, agentv1.ExecServerElement]
	hello
	close func()

	mu    sync.Mutex
	out   []*agentv1.ExecStreamElement // messages to be sent, in order
	beats uint64                       // number of the newest heartbeat
	ready chan struct{}                // holds a token when out is not empty
}

// send queues an element. It never blocks, so a machine that does not read
// cannot block the caller. The queue is bounded by the calls in flight.
func (l *link) send(element *agentv1.ExecStreamElement) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue(element)
}

// queue appends an element. The caller holds l.mu.
func (l *link) queue(element *agentv1.ExecStreamElement) {
	l.out = append(l.out, element)
	select {
	case l.ready <- struct{}{}:
	default:
	}
}

// beat queues a heartbeat and returns its number. The machine replies after it
// has processed all earlier messages.
func (l *link) beat() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.beats++
	l.queue(&agentv1.ExecStreamElement{Element: &agentv1.ExecStreamElement_ExecClientControlMessage{
		ExecClientControlMessage: &agentv1.ExecClientControlMessage{
			Control: &agentv1.ExecClientControlMessage_Heartbeat{Heartbeat: &agentv1.Heartbeat{Sequence: l.beats}},
		},
	}})
	return l.beats
}

// write sends the queued messages until ctx ends or the stream breaks.
func (l *link) write(ctx context.Context) {
	for {
		select {
		case <-l.ready:
		case <-ctx.Done():
			return
		}
		l.mu.Lock()
		out := l.out
		l.out = nil
		l.mu.Unlock()
		for _, element := range out {
			if err := l.stream.Send(element); err != nil {
				return // Receive returns the reason
			}
		}
	}
}

// connect dials the machine, opens a stream, and waits for its hello.
func (cs *Calls) connect(ctx context.Context) (*link, error) {
	dialCtx, dialed := context.WithTimeout(ctx, comeBack)
	conn, err := cs.dial(dialCtx)
	dialed()
	if err != nil {
		return nil, err
	}
	// Each stream has its own connection.
	unused := make(chan net.Conn, 1)
	unused <- conn
	through := machinerpc.NewClient(func(context.Context) (net.Conn, error) {
		select {
		case conn := <-unused:
			return conn, nil
		default:
			return nil, errors.New("the connection was already used")
		}
	})
	ctx, cancel := context.WithCancel(ctx)
	l := &link{ready: make(chan struct{}, 1), close: func() {
		cancel()
		_ = conn.Close() // needed because a stream ignores its context while its request is still being written
		through.CloseIdleConnections()
	}}
	context.AfterFunc(ctx, l.close)
	client := agentv1connect.NewExecServiceClient(through, "http://exec-daemon",
		machinerpc.Options(maxElement, machinerpc.Redact(cs.redactor.Load)))
	l.stream = client.ExecStream(ctx)
	l.stream.RequestHeader().Set("Authorization", "Bearer "+cs.token)
	if cs.trace != "" {
		l.stream.RequestHeader().Set(telemetry.Header, cs.trace)
		l.stream.RequestHeader().Set(telemetry.BackendHeader, cs.trace)
	}
	late := time.AfterFunc(comeBack, l.close)
	defer late.Stop()
	if err := l.greet(); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// greet receives the hello.
func (l *link) greet() error {
	if err := l.stream.Send(nil); err != nil { // sends only the headers
		// If the server has replied, the error of Receive says more.
		if _, receiveErr := l.stream.Receive(); receiveErr != nil {
			return receiveErr
		}
		return err
	}
	first, err := l.stream.Receive()
	if err != nil {
		return err
	}
	h := first.GetHello()
	if h == nil {
		return errUnheard
	}
	if h.GetCatalogueDigest() != tool.Digest() {
		return fmt.Errorf("%w: its digest is %.16q, this server's is %.16q", ErrCatalogue, h.GetCatalogueDigest(), tool.Digest())
	}
	l.checksHooks = h.GetChecksHooks()
	l.bootID = bound(h.GetBootId(), maxID)
	for _, id := range h.GetKnown() {
		if validID(id) && len(l.known) < maxKnown {
			l.known = append(l.known, id)
		}
	}
	for _, t := range tool.Catalogue() {
		if slices.Contains(h.GetLacking(), t.Name) {
			l.lacking = append(l.lacking, t.Name)
		}
	}
	return nil
}

// read handles messages of the stream until it breaks.
func (cs *Calls) read(l *link) error {
	quiet := time.AfterFunc(silence, l.close)
	defer quiet.Stop()
	for {
		element, err := l.stream.Receive()
		if err != nil {
			if !quiet.Stop() && cs.ctx.Err() == nil {
				return errSilent
			}
			return err
		}
		quiet.Reset(silence)
		switch element := element.GetElement().(type) {
		case *agentv1.ExecServerElement_Delta:
			if of := cs.find(element.Delta.GetCallId()); of != nil {
				of.hear(element.Delta)
			}
		case *agentv1.ExecServerElement_Completed:
			if of := cs.find(element.Completed.GetCallId()); of != nil {
				of.complete(element.Completed)
			}
		case *agentv1.ExecServerElement_Heartbeat:
			cs.heard(element.Heartbeat.GetSequence())
		}
	}
}

func (cs *Calls) find(id string) *inFlight {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.calls[id]
}

// heard completes the acknowledgements that were sent before the given
// heartbeat.
func (cs *Calls) heard(sequence uint64) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for id, a := range cs.acks {
		if a.beat != 0 && a.beat <= sequence {
			a.settle(nil)
			delete(cs.acks, id)
		}
	}
}

func (a *ack) settle(err error) {
	for _, w := range a.waiters {
		w <- err // has a buffer of one
	}
}

func callElement(of *inFlight) *agentv1.ExecStreamElement {
	return &agentv1.ExecStreamElement{Element: &agentv1.ExecStreamElement_ExecClientMessage{
		ExecClientMessage: &agentv1.ExecClientMessage{CallId: of.id, ToolCall: of.message, Unhooked: of.unhooked},
	}}
}

func abortElement(of *inFlight) *agentv1.ExecStreamElement {
	return &agentv1.ExecStreamElement{Element: &agentv1.ExecStreamElement_ExecClientControlMessage{
		ExecClientControlMessage: &agentv1.ExecClientControlMessage{
			Control: &agentv1.ExecClientControlMessage_Abort{Abort: &agentv1.AbortCall{
				CallId: of.id, Reason: bound(of.aborted.Error(), 1<<10),
			}},
		},
	}}
}
