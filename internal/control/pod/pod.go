// Package pod is the control plane's end of the connection to a machine. A
// [Conn] speaks pod.v1 with the machine's pod-daemon, opens streams to its
// exec-daemon, and serves the requests that git in the machine sends to the
// gateway.
//
// Everything that a machine sends is untrusted. The package bounds its size and
// makes it valid UTF-8; callers must treat it as data. Package execclient speaks
// with exec-daemon.
package pod

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"aloft/internal/control/machine"
	"aloft/internal/control/machinerpc"
	"aloft/internal/redact"
	"aloft/internal/wire/mux"
	"aloft/internal/wire/podv1/podv1connect"
)

// maxMessage is the maximum size of a message from a machine, in bytes. A
// message with a whole diff fits.
const maxMessage = 8 << 20

// greetTimeout is the timeout for a machine's first reply, after it has
// accepted the connection.
const greetTimeout = 10 * time.Second

// Conn is the connection to one machine. Its methods are safe for concurrent
// use. Errors of a connection that has ended wrap [ErrLost].
type Conn struct {
	mux      *mux.Conn
	pod      podv1connect.PodServiceClient
	client   *http.Client
	asked    map[string]*http.Server // servers of the machine's requests, by stream name
	served   sync.WaitGroup
	redactor atomic.Pointer[redact.Redactor]
	waits
}

// Dial connects to the machine's pod-daemon and checks that it responds. The
// handler git serves requests of the machine's git; nil refuses them. The
// connection outlives ctx: it ends with Close or with the machine.
func Dial(ctx context.Context, m machine.Machine, git http.Handler, all ...Option) (*Conn, error) {
	raw, err := m.Dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("dial machine %s: %w", m.ID(), err)
	}
	c, err := newConn(raw, git, optionsOf(all))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("dial machine %s: %w", m.ID(), err), raw.Close())
	}
	ctx, cancel := context.WithTimeout(ctx, greetTimeout)
	defer cancel()
	if _, err := c.Status(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("dial machine %s: %w", m.ID(), err), c.Close())
	}
	return c, nil
}

func newConn(raw net.Conn, git http.Handler, o options) (*Conn, error) {
	m, err := mux.Client(raw)
	if err != nil {
		return nil, err
	}
	c := &Conn{mux: m, waits: o.waits}
	c.redactor.Store(o.redactor)
	c.client = machinerpc.NewClient(func(ctx context.Context) (net.Conn, error) { return c.open(ctx, mux.Pod) })
	c.pod = podv1connect.NewPodServiceClient(c.client, "http://pod",
		machinerpc.Options(maxMessage, patient{o.waits}, machinerpc.Redact(c.Redactor)))
	c.serve(map[string]http.Handler{mux.Git: git, mux.Token: o.tokens, mux.Telemetry: o.spans, mux.Embeddings: o.embed, mux.Registry: o.registries}, o.tell)
	return c, nil
}

// open opens a stream. Its error wraps [ErrLost] if the connection has ended.
func (c *Conn) open(ctx context.Context, name string) (net.Conn, error) {
	s, err := c.mux.Open(ctx, name)
	if err != nil {
		return nil, c.Lost(err)
	}
	return s, nil
}

// OpenExec opens a stream to the machine's exec-daemon. Bytes written before
// exec-daemon listens are buffered. If there is no exec-daemon, the stream
// returns EOF at once.
func (c *Conn) OpenExec(ctx context.Context) (net.Conn, error) { return c.open(ctx, mux.Exec) }

// OpenPTY opens a stream to the machine's terminals, with the protocol of
// docs/reference/pty.md over a WebSocket. Bytes written before exec-daemon
// listens are buffered.
func (c *Conn) OpenPTY(ctx context.Context) (net.Conn, error) { return c.open(ctx, mux.PTY) }

// Lost wraps err with [ErrLost] if the connection has ended.
func (c *Conn) Lost(err error) error {
	select {
	case <-c.mux.Done():
		return fmt.Errorf("%w: %w", ErrLost, cmp.Or(c.mux.Exceeded(), err))
	default:
		return err
	}
}

// Done returns a channel that is closed when the connection has ended, by Close
// or because the machine is gone.
func (c *Conn) Done() <-chan struct{} { return c.mux.Done() }

// Close closes the connection and waits for the requests that it serves. The
// machine keeps running.
func (c *Conn) Close() error {
	err := c.mux.Close()
	for _, server := range c.asked {
		err = errors.Join(err, server.Close())
	}
	c.client.CloseIdleConnections()
	c.served.Wait()
	return err
}
