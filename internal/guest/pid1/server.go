package pid1

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"aloft/internal/guest/checkout"
	"aloft/internal/wire/agentv1"
	"aloft/internal/wire/mux"
	"aloft/internal/wire/podv1/podv1connect"
)

// maxRequest is the largest message to this daemon, in bytes.
const maxRequest = 4 << 20

// podServer implements pod.v1's PodService on the control plane's streams. Each
// RPC has its own file.
type podServer struct {
	d       *Daemon
	http    http.Server
	streams *mux.Listener
	cancel  context.CancelFunc
}

var _ podv1connect.PodServiceHandler = (*podServer)(nil)

func newPodServer(d *Daemon) *podServer {
	s := &podServer{d: d, streams: mux.NewListener()}
	var h2c http.Protocols
	h2c.SetUnencryptedHTTP2(true)
	routes := http.NewServeMux()
	routes.Handle(podv1connect.NewPodServiceHandler(s, connect.WithReadMaxBytes(maxRequest)))
	routes.Handle(podv1connect.NewManagementServiceHandler(&management{d}, connect.WithReadMaxBytes(maxRequest)))
	routes.Handle(podv1connect.NewMetadataServiceHandler(&metadataServer{d}, connect.WithReadMaxBytes(maxRequest)))
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.http = http.Server{
		Handler:           routes,
		Protocols:         &h2c,
		ReadHeaderTimeout: 30 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	go func() {
		if err := s.http.Serve(s.streams); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			d.cfg.Log.Error("cannot serve pod.v1", "err", err)
		}
	}()
	return s
}

func (s *podServer) serve(stream net.Conn) {
	if !s.streams.Hand(stream) {
		_ = stream.Close()
	}
}

// quiesce waits for the duration moment, so that short calls can finish, such as the
// Shutdown call that caused it. Then it cancels the remaining calls and waits for them
// until ctx ends.
func (s *podServer) quiesce(ctx context.Context, moment time.Duration) {
	short, cancel := context.WithTimeout(ctx, moment)
	defer cancel()
	_ = s.http.Shutdown(short) // remaining calls are cancelled below
	s.cancel()
	if giveBack, err := s.d.take(ctx); err == nil {
		giveBack()
	}
	_ = s.http.Close()
}

// repository returns one of the repositories that Boot prepared.
func (s *podServer) repository(n int32) (*checkout.Repository, error) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	if len(s.d.repos) == 0 {
		return nil, connect.NewError(connect.CodeFailedPrecondition, errors.New("the machine is not booted: call Boot first"))
	}
	if n < 0 || int(n) >= len(s.d.repos) {
		return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("there is no repository %d; the machine has %d", n, len(s.d.repos)))
	}
	return s.d.repos[n], nil
}

// hookedRepository is repository, but runs the project's hooks in the sandbox of a
// policy. A nil policy means no sandbox.
func (s *podServer) hookedRepository(n int32, p *agentv1.SandboxPolicy) (*checkout.Repository, error) {
	repo, err := s.repository(n)
	if err != nil || p == nil {
		return repo, err
	}
	confined := *repo
	confined.Around = func(argv []string) ([]string, error) { return s.d.confined(p, argv) }
	return &confined, nil
}

// refusal splits an error: a refusal by git becomes a code and a message; other
// errors are returned unchanged.
func refusal(err error) (code, words string, rest error) {
	if err == nil {
		return "", "", nil
	}
	if f, ok := errors.AsType[*checkout.Failure](err); ok {
		return f.Code, f.Detail, nil
	}
	if ctxErr := context.Canceled; errors.Is(err, ctxErr) {
		return "", "", connect.NewError(connect.CodeCanceled, err)
	}
	return checkout.CodeInternal, err.Error(), nil
}
