// Package pod is the control plane's end of the connection to a machine. A
// [Conn] speaks pod.v1 with the machine's pod-daemon, opens streams to its
// exec-daemon, and serves what git in the machine asks of the gateway.
//
// Whatever a machine says is bounded in size and made valid UTF-8 here, and is
// not believed: a caller treats it as data. Speaking agent.v1 over the exec
// stream is the other half of the package, in the files named exec*.
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

	"connectrpc.com/connect"

	"aloft/internal/control/machine"
	"aloft/internal/wire/mux"
	"aloft/internal/wire/podv1/podv1connect"
)

// maxMessage bounds one message from a machine, in bytes: a whole diff fits.
const maxMessage = 8 << 20

// greetTimeout bounds the first reply of a machine that accepted the
// connection.
const greetTimeout = 10 * time.Second

// Conn is the connection to one machine. Its methods are safe for concurrent
// use. Errors of a connection that has ended wrap [ErrLost].
type Conn struct {
	mux     *mux.Conn
	pod     podv1connect.PodServiceClient
	client  *http.Client
	asked   map[string]*http.Server // by the name of the streams that they answer
	served  sync.WaitGroup
	secrets *secrets
	waits
}

// Dial connects to the machine's pod-daemon and hears that it is well. git
// answers what git in the machine asks; nil refuses it. The connection outlives
// ctx: it ends with Close, or with the machine.
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
	var h2c http.Protocols
	h2c.SetUnencryptedHTTP2(true)
	c.client = &http.Client{Transport: &http.Transport{
		Protocols:          &h2c,
		DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return c.open(ctx, mux.Pod)
		},
	}}
	c.pod = podv1connect.NewPodServiceClient(c.client, "http://pod",
		connect.WithReadMaxBytes(maxMessage), connect.WithAcceptCompression("gzip", nil, nil), connect.WithInterceptors(patient{o.waits}, heard{o.secrets}))
	c.serve(map[string]http.Handler{mux.Git: git, mux.Token: o.tokens, mux.Telemetry: o.spans}, o.tell)
	return c, nil
}

// open opens a stream; its error wraps [ErrLost] when the connection has ended.
func (c *Conn) open(ctx context.Context, name string) (net.Conn, error) {
	s, err := c.mux.Open(ctx, name)
	if err != nil {
		return nil, c.lost(err)
	}
	return s, nil
}

// OpenExec opens a stream to the machine's exec-daemon. Bytes written before
// exec-daemon listens wait for it; a stream that reads EOF at once found none.
func (c *Conn) OpenExec(ctx context.Context) (net.Conn, error) { return c.open(ctx, mux.Exec) }

// lost marks err as the end of the connection, where the connection has ended.
func (c *Conn) lost(err error) error {
	select {
	case <-c.mux.Done():
		return fmt.Errorf("%w: %w", ErrLost, cmp.Or(c.mux.Exceeded(), err))
	default:
		return err
	}
}

// Done is closed when the connection has ended, by Close or because the
// machine is gone.
func (c *Conn) Done() <-chan struct{} { return c.mux.Done() }

// Close ends the connection and waits for what it serves. The machine goes on.
func (c *Conn) Close() error {
	err := c.mux.Close()
	for _, server := range c.asked {
		err = errors.Join(err, server.Close())
	}
	c.client.CloseIdleConnections()
	c.served.Wait()
	return err
}
