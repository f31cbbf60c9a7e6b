package execd

import (
	"context"
	"errors"
	"io"
	"sync"

	"connectrpc.com/connect"

	"aloft/internal/tool"
	"aloft/internal/wire/agentv1"
)

// maxBeats limits the number of unanswered heartbeats.
const maxBeats = 64

// ExecStream runs calls until the client closes the stream. If the stream
// breaks, its calls keep running.
func (s *Server) ExecStream(ctx context.Context, stream *connect.BidiStream[agentv1.ExecStreamElement, agentv1.ExecServerElement]) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out := &sender{stream: stream}
	err := out.send(&agentv1.ExecServerElement{Element: &agentv1.ExecServerElement_Hello{Hello: &agentv1.ExecHello{
		CatalogueDigest: tool.Digest(), BootId: s.bootID, Lacking: s.calls.lacking(), Known: s.calls.ids(), ChecksHooks: true,
	}}})
	if err != nil {
		return err
	}
	var speakers sync.WaitGroup
	beats := make(chan *agentv1.Heartbeat, maxBeats)
	speakers.Go(func() { out.answer(beats) })

	var mu sync.Mutex
	following := make(map[string]struct{})
	follow := func(c *call) {
		mu.Lock()
		defer mu.Unlock()
		if _, twice := following[c.id]; twice {
			return
		}
		following[c.id] = struct{}{}
		s.following.Add(1)
		speakers.Go(func() {
			defer s.following.Done()
			// Ignore the error: it means that the stream has ended, and Receive
			// reports that.
			_ = c.follow(ctx, func(element *agentv1.ExecServerElement) error {
				if element.GetCompleted() != nil { // the client may send the same id again right after the result
					mu.Lock()
					delete(following, c.id)
					mu.Unlock()
				}
				return out.send(element)
			})
		})
	}
	for {
		element, receiveErr := stream.Receive()
		if receiveErr != nil {
			close(beats)
			if !errors.Is(receiveErr, io.EOF) {
				cancel()
				err = receiveErr
			}
			speakers.Wait()
			return err
		}
		if asked := element.GetExecClientMessage(); asked != nil {
			follow(s.calls.attach(asked.GetCallId(), asked.GetToolCall(), asked.GetUnhooked()))
		}
		control := element.GetExecClientControlMessage()
		if ack := control.GetAck(); ack != nil {
			s.calls.acknowledge(ack.GetCallId())
		}
		if abort := control.GetAbort(); abort != nil {
			s.calls.abort(abort.GetCallId(), abort.GetReason())
		}
		if beat := control.GetHeartbeat(); beat != nil {
			select {
			case beats <- beat:
			default: // the client is not reading; a later heartbeat will be answered
			}
		}
	}
}

// sender lets several goroutines send on one stream. It is safe for concurrent
// use.
type sender struct {
	mu     sync.Mutex
	stream *connect.BidiStream[agentv1.ExecStreamElement, agentv1.ExecServerElement]
}

func (o *sender) send(element *agentv1.ExecServerElement) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.stream.Send(element)
}

// answer answers heartbeats. It runs in its own goroutine, so that a client
// that does not read can still abort calls.
func (o *sender) answer(beats <-chan *agentv1.Heartbeat) {
	for beat := range beats {
		// Ignore the error: it means that the stream has ended, and Receive
		// reports that.
		_ = o.send(&agentv1.ExecServerElement{Element: &agentv1.ExecServerElement_Heartbeat{Heartbeat: beat}})
	}
}
