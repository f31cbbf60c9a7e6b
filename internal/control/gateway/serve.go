package gateway

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute // between requests, and between two pieces of a body
	maxHeader     = 32 << 10
)

// startServer starts the HTTP server whose connections come by ServeConn.
func (g *Gateway) startServer() {
	g.conns = &connListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	g.server = &http.Server{
		Handler:           g,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(g.log.Handler(), slog.LevelDebug),
	}
	g.served.Go(func() { _ = g.server.Serve(g.conns) }) // it ends only by Close
}

// ServeConn serves git on a connection that a machine opened, until it ends. It
// owns conn.
func (g *Gateway) ServeConn(conn net.Conn) {
	c := &watchedConn{Conn: conn, closed: make(chan struct{})}
	select {
	case g.conns.conns <- c:
	case <-g.conns.closed:
		_ = conn.Close()
		return
	}
	<-c.closed
}

// connListener is a net.Listener of connections that come from elsewhere.
type connListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *connListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *connListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *connListener) Addr() net.Addr { return machineAddr{} }

// machineAddr is the address of a connection that has none.
type machineAddr struct{}

func (machineAddr) Network() string { return "mux" }
func (machineAddr) String() string  { return "machine" }

// watchedConn tells when it has been closed.
type watchedConn struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

func (c *watchedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { close(c.closed) })
	return err
}

// patientReader reads a request's body as long as it keeps coming.
type patientReader struct {
	body io.Reader
	rc   *http.ResponseController
}

func (p *patientReader) Read(b []byte) (int, error) {
	_ = p.rc.SetReadDeadline(time.Now().Add(idleTimeout)) // a server without deadlines has its own
	n, err := p.body.Read(b)
	if err != nil {
		// The server goes on to watch the connection; that read has no end.
		_ = p.rc.SetReadDeadline(time.Time{})
	}
	return n, err
}

// patientWriter writes a response as long as it is taken, and at once.
type patientWriter struct {
	w    http.ResponseWriter
	rc   *http.ResponseController
	sent int64
}

func (p *patientWriter) Write(b []byte) (int, error) {
	_ = p.rc.SetWriteDeadline(time.Now().Add(idleTimeout))
	n, err := p.w.Write(b)
	p.sent += int64(n)
	if err == nil {
		err = p.rc.Flush()
	}
	return n, err
}

// ReadFrom copies in pieces as large as a pipe holds.
func (p *patientWriter) ReadFrom(r io.Reader) (int64, error) {
	start := p.sent
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if _, werr := p.Write(buf[:n]); werr != nil {
				return p.sent - start, werr
			}
		}
		if errors.Is(err, io.EOF) {
			return p.sent - start, nil
		}
		if err != nil {
			return p.sent - start, err
		}
	}
}
