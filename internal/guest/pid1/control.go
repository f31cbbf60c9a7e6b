package pid1

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"aloft/internal/guest/desktop"
	"aloft/internal/wire/mux"
)

// How long a stream waits for its destination.
const (
	execPatience    = 15 * time.Second // for exec-daemon, which may be restarting
	gatewayPatience = 30 * time.Second // for a control plane, which may be restarting
)

// retryInterval is the time between attempts to connect to exec-daemon's port.
const retryInterval = 5 * time.Millisecond

// listenSocket listens on a unix socket that only root may connect to.
func listenSocket(ctx context.Context, path string) (net.Listener, error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	// Remove the socket of a daemon that was killed.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("socket: %w", err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("socket: %w", err), l.Close())
	}
	return l, nil
}

// accept serves the control plane's connections, counted by in, until l is
// closed.
func (d *Daemon) accept(l net.Listener, in *visitors, server *podServer) error {
	for {
		raw, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept the control plane: %w", err)
		}
		conn, err := mux.Server(raw)
		if err != nil {
			_ = raw.Close()
			continue
		}
		in.add(conn)
		go func() {
			defer in.remove(conn)
			defer d.controls.remove(conn)
			// Ask the connection to serve git only once it is used for more than ports.
			var speaks sync.Once
			err := conn.Serve(func(name string, stream net.Conn) {
				n, isPort := mux.PortOf(name)
				switch {
				case name == mux.Pod:
					speaks.Do(func() { d.controls.add(conn) })
					server.serve(stream)
				case name == mux.Exec:
					d.joinExec(conn, stream, d.cfg.ExecAddr)
				case name == mux.PTY:
					d.joinExec(conn, stream, d.cfg.PTYAddr)
				case isPort:
					d.joinPort(stream, n)
				case name == mux.SSH:
					d.joinSSH(conn, stream)
				default:
					_ = stream.Close()
				}
			})
			d.cfg.Log.Info("control connection ended", "why", err)
			_ = conn.Close()
		}()
	}
}

// joinExec connects a stream to a port of exec-daemon.
func (d *Daemon) joinExec(conn *mux.Conn, stream net.Conn, addr string) {
	d.joinDialed(conn, stream, func(ctx context.Context) (net.Conn, error) { return dialTCP(ctx, addr) })
}

// joinDialed connects a stream to the connection that dial makes, and retries
// dial for a while.
func (d *Daemon) joinDialed(conn *mux.Conn, stream net.Conn, dial func(context.Context) (net.Conn, error)) {
	ctx, cancel := context.WithTimeout(context.Background(), execPatience)
	defer cancel()
	wait := time.NewTicker(retryInterval)
	defer wait.Stop()
	for {
		up, err := dial(ctx)
		if err == nil {
			mux.Join(stream, up)
			return
		}
		select {
		case <-wait.C:
		case <-ctx.Done():
			_ = stream.Close()
			return
		case <-conn.Done():
			_ = stream.Close()
			return
		}
	}
}

// portPatience is the timeout for connecting to a port on loopback. A port answers at
// once, unless its queue is full.
const portPatience = 5 * time.Second

// joinPort connects a stream to a port on loopback, over IPv4 or IPv6. The VNC
// port starts the desktop.
func (d *Daemon) joinPort(stream net.Conn, port uint16) {
	up, err := dialPort(port)
	if err != nil && port == desktop.VNCPort {
		up, err = d.dialDesktop()
	}
	if err != nil {
		_ = stream.Close()
		return
	}
	if _, err := stream.Write([]byte{0}); err != nil {
		_ = errors.Join(up.Close(), stream.Close())
		return
	}
	mux.Join(stream, up)
}

func dialPort(port uint16) (conn net.Conn, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), portPatience)
	defer cancel()
	for _, host := range []string{"127.0.0.1", "::1"} {
		if conn, err = dialTCP(ctx, net.JoinHostPort(host, strconv.Itoa(int(port)))); err == nil {
			break
		}
	}
	return conn, err
}

func dialTCP(ctx context.Context, addr string) (net.Conn, error) {
	var dialer net.Dialer
	return dialer.DialContext(ctx, "tcp", addr)
}

// serveOut forwards each connection to a port over a stream with that name to
// the control plane, until l is closed.
func (d *Daemon) serveOut(l net.Listener, name string) {
	for {
		conn, err := l.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				d.cfg.Log.Error("cannot accept connections on a port", "stream", name, "err", err)
			}
			return
		}
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), gatewayPatience)
			defer cancel()
			stream, err := d.controls.open(ctx, name)
			if err != nil {
				d.cfg.Log.Warn("cannot forward a connection to the control plane", "stream", name, "err", err)
				_ = conn.Close()
				return
			}
			mux.Join(conn, stream)
		}()
	}
}

// controls are the control plane's connections, the newest last. The zero value
// is ready to use.
type controls struct {
	mu    sync.Mutex
	conns []*mux.Conn
	more  chan struct{} // closed when one is added; nil if nobody waits
}

func (c *controls) add(conn *mux.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-conn.Done(): // already removed
		return
	default:
	}
	c.conns = append(c.conns, conn)
	if c.more != nil {
		close(c.more)
		c.more = nil
	}
}

func (c *controls) remove(conn *mux.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns = slices.DeleteFunc(c.conns, func(o *mux.Conn) bool { return o == conn })
}

// open opens a stream on the newest live connection, and waits for one until
// ctx ends.
func (c *controls) open(ctx context.Context, name string) (net.Conn, error) {
	for {
		c.mu.Lock()
		conns := slices.Clone(c.conns)
		if c.more == nil {
			c.more = make(chan struct{})
		}
		more := c.more
		c.mu.Unlock()
		for _, conn := range slices.Backward(conns) {
			if stream, err := conn.Open(ctx, name); err == nil {
				return stream, nil
			}
		}
		select {
		case <-more:
		case <-ctx.Done():
			return nil, errors.New("no control plane is connected")
		}
	}
}

func (c *controls) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.Close()
	}
}
