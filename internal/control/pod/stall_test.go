package pod

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"connectrpc.com/connect"

	"aloft/internal/fault"
	"aloft/internal/wire/mux"
	"aloft/internal/wire/podv1"
	"aloft/internal/wire/podv1/podv1connect"
)

// mute is a pod-daemon that accepts every request and never replies.
type mute struct {
	podv1connect.UnimplementedPodServiceHandler
}

func (mute) Status(ctx context.Context, _ *connect.Request[podv1.StatusRequest]) (*connect.Response[podv1.StatusResponse], error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (mute) Commit(ctx context.Context, _ *connect.Request[podv1.CommitRequest]) (*connect.Response[podv1.CommitResponse], error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (mute) Boot(ctx context.Context, _ *connect.Request[podv1.BootRequest], _ *connect.ServerStream[podv1.BootResponse]) error {
	<-ctx.Done()
	return ctx.Err()
}

func (mute) RunCommand(ctx context.Context, _ *connect.Request[podv1.RunCommandRequest], _ *connect.ServerStream[podv1.RunCommandResponse]) error {
	<-ctx.Done()
	return ctx.Err()
}

// served returns a connection to a pod-daemon of the test.
func served(t *testing.T, pod podv1connect.PodServiceHandler) *Conn {
	t.Helper()
	ours, theirs := net.Pipe()
	there, err := mux.Server(theirs)
	if err != nil {
		t.Fatal(err)
	}
	handler := http.NewServeMux()
	handler.Handle(podv1connect.NewPodServiceHandler(pod))
	var h2c http.Protocols
	h2c.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: handler, Protocols: &h2c} //nolint:gosec // only used in tests
	l := mux.NewListener()
	go func() { _ = server.Serve(l) }()
	go func() { _ = there.Serve(func(_ string, s net.Conn) { l.Hand(s) }) }()
	c, err := newConn(ours, nil, options{waits: waits{answer: short, git: short, boot: short, grace: short}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		_ = there.Close()
		_ = server.Close()
	})
	return c
}

// short is the timeout for the machines of these tests.
const short = 50 * time.Millisecond

// TestMuteMachine uses a machine that keeps its connection alive but never
// replies. Every request must time out with an error that gives the reason.
func TestMuteMachine(t *testing.T) {
	t.Parallel()
	c := served(t, mute{})
	for name, ask := range map[string]func() error{
		"status": func() error { _, err := c.Status(t.Context()); return err },
		"commit": func() error { _, err := c.Commit(t.Context(), 0, "m", false, nil); return err },
		"boot":   func() error { _, err := c.Boot(t.Context(), Boot{}, nil); return err },
	} {
		if err := ask(); !fault.Is(err, fault.KindUnavailable) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	if exit, err := c.RunCommand(t.Context(), "sleep 1", short, io.Discard); err != nil || !exit.TimedOut {
		t.Errorf("the command ended with %+v, %v", exit, err)
	}
}

// TestPace sends the boot messages of an honest machine and of hostile ones.
func TestPace(t *testing.T) {
	t.Parallel()
	tell := func(n int, gap time.Duration, of func(i int) Step) (passed, size int, err error) {
		var p pace
		now := time.Unix(0, 0)
		for i := range n {
			s := of(i)
			ok, err := p.admit(s, now)
			if err != nil {
				return passed, size, err
			}
			if ok {
				passed++
				size += len(s.Name) + len(s.Detail)
			}
			now = now.Add(gap)
		}
		return passed, size, nil
	}
	long := make([]byte, maxDetail)
	clone := func(int) Step { return Step{Name: "checkout", State: StepRunning, Detail: "Receiving objects: 45%"} }
	if passed, _, err := tell(600, time.Second, clone); err != nil || passed != 600 {
		t.Errorf("of ten minutes of an honest clone %d of 600 were told, %v", passed, err)
	}
	if passed, _, err := tell(20_000, time.Microsecond, clone); err != nil || passed > 3 {
		t.Errorf("in a second %d were told, %v", passed, err)
	}
	if _, size, err := tell(20_000, time.Second, func(int) Step { return Step{Name: "checkout", State: StepRunning, Detail: string(long)} }); err != nil || size > maxProgress+2*maxDetail {
		t.Errorf("progress took %d bytes, %v", size, err)
	}
	for name, of := range map[string]func(int) Step{
		"steps that end":    func(int) Step { return Step{Name: "checkout", State: StepDone, Detail: string(long)} },
		"steps that change": func(i int) Step { return Step{Name: string(rune('a' + i%2)), State: StepRunning, Detail: string(long)} },
	} {
		passed, _, err := tell(20_000, time.Hour, of)
		if _, ok := errors.AsType[*StepError](err); !ok || passed > maxSteps {
			t.Errorf("%s: %d were told, %v", name, passed, err)
		}
	}
}
