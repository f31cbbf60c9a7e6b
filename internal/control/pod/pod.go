// Package pod is the control plane's end of the connection to a machine. A
// [Conn] speaks pod.v1 with the machine's pod-daemon, opens streams to its
// exec-daemon, and serves the requests that git in the machine sends to the
// gateway.
//
// Everything that a machine sends is untrusted. The package bounds its size and
// makes it valid UTF-8; callers must treat it as data. The files named exec*
// speak agent.v1 over the exec stream.
package pod

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"aloft/internal/control/machine"
	"aloft/internal/wire/mux"
	"aloft/internal/wire/podv1/podv1connect"
)

// maxMessage is the maximum size of a message from a machine, in bytes: a whole
// diff fits.
const maxMessage = 8 << 20

// greetTimeout is the timeout for the first reply of a machine that has
// accepted the connection.
const greetTimeout = 10 * time.Second

// Conn is the connection to one machine. Its methods are safe for concurrent
// use. Errors of a connection that has ended wrap [ErrLost].
type Conn struct {
	mux     *mux.Conn
	pod     podv1connect.PodServiceClient
	client  *http.Client
	asked   map[string]*http.Server // by the name of the streams that they serve
	served  sync.WaitGroup
	secrets *secrets
	waits
}

// Dial connects to the machine's pod-daemon and checks that it responds. git
// serves requests of git in the machine; nil refuses them. The connection
// outlives ctx: it ends with Close or with the machine.
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
	c := &Conn{mux: m, secrets: o.secrets, waits: o.waits}
	c.client = newClient(func(ctx context.Context) (net.Conn, error) { return c.open(ctx, mux.Pod) })
	c.pod = podv1connect.NewPodServiceClient(c.client, "http://pod",
		replyOptions(maxMessage, patient{o.waits}, heard{o.secrets}))
	c.serve(map[string]http.Handler{mux.Git: git, mux.Token: o.tokens, mux.Telemetry: o.spans}, o.tell)
	return c, nil
}

// open opens a stream. Its error wraps [ErrLost] if the connection has ended.
func (c *Conn) open(ctx context.Context, name string) (net.Conn, error) {
	s, err := c.mux.Open(ctx, name)
	if err != nil {
		return nil, c.lost(err)
	}
	return s, nil
}

// OpenExec opens a stream to the machine's exec-daemon. Bytes written before
// exec-daemon listens are kept for it. If there is no exec-daemon, the stream
// returns EOF at once.
func (c *Conn) OpenExec(ctx context.Context) (net.Conn, error) { return c.open(ctx, mux.Exec) }

// lost wraps err with ErrLost if the connection has ended.
func (c *Conn) lost(err error) error {
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
