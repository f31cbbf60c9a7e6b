package pid1

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"connectrpc.com/connect"

	"aloft/internal/wire/mux"
	"aloft/internal/wire/podv1"
)

// Settings for a snapshot with memory.
const (
	hangUp   = time.Second          // how long the control plane may take to close its connections
	restMost = 30 * time.Second     // timeout in the machine's own time, which stops during the snapshot
	restLook = 5 * time.Millisecond // interval of checks for wokenFile
	// wokenFile is a file that the runtime creates in the socket's folder after
	// restoring the machine from a snapshot.
	wokenFile = "woken"
)

// Quiesce implements pod.v1's PodService. It replies before the machine is quiesced. The
// removal of the socket signals that the machine is quiesced.
func (s *podServer) Quiesce(context.Context, *connect.Request[podv1.QuiesceRequest]) (*connect.Response[podv1.QuiesceResponse], error) {
	select {
	case s.d.rest <- struct{}{}:
	default: // a quiesce is pending already
	}
	return connect.NewResponse(&podv1.QuiesceResponse{}), nil
}

// serveControl serves the control plane on the socket until ctx ends. For each
// snapshot it closes the socket and opens it again afterwards.
func (d *Daemon) serveControl(ctx context.Context, socket net.Listener, server *podServer) error {
	for {
		var in visitors
		ended := make(chan error, 1)
		go func() { ended <- d.accept(socket, &in, server) }()
		select {
		case <-ctx.Done():
			return socket.Close()
		case err := <-ended:
			return err
		case <-d.rest:
		}
		if l, ok := socket.(*net.UnixListener); ok {
			l.SetUnlinkOnClose(false) // the socket is removed last, as the sign that quiescing is done
		}
		_ = socket.Close()
		<-ended
		in.end(hangUp)
		d.cfg.Log.Info("quiescing for a snapshot")
		if err := d.awaitWaking(ctx); err != nil || ctx.Err() != nil {
			return err
		}
		var err error
		if socket, err = listenSocket(ctx, d.cfg.Socket); err != nil {
			return err
		}
		d.cfg.Log.Info("resumed after a snapshot")
	}
}

// awaitWaking removes the socket to signal that the snapshot can be taken. It returns
// when the machine has been restored, or when no snapshot was taken in time.
func (d *Daemon) awaitWaking(ctx context.Context) error {
	woken := filepath.Join(filepath.Dir(d.cfg.Socket), wokenFile)
	for _, path := range []string{woken, d.cfg.Socket} {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	most := time.NewTimer(restMost)
	defer most.Stop()
	look := time.NewTicker(restLook)
	defer look.Stop()
	for !exists(woken) {
		select {
		case <-look.C:
		case <-most.C:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// visitors tracks the connections of one socket. The zero value is ready to
// use. Its methods are safe for concurrent use.
type visitors struct {
	mu     sync.Mutex
	conns  map[*mux.Conn]bool
	inside sync.WaitGroup
}

func (v *visitors) add(conn *mux.Conn) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.conns == nil {
		v.conns = map[*mux.Conn]bool{}
	}
	v.conns[conn] = true
	v.inside.Add(1)
}

func (v *visitors) remove(conn *mux.Conn) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.conns, conn)
	v.inside.Done()
}

// end refuses new connections, and returns when all existing ones are closed.
// It closes the remaining ones after patience.
func (v *visitors) end(patience time.Duration) {
	showOut := time.AfterFunc(patience, func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		for conn := range v.conns {
			_ = conn.Close()
		}
	})
	defer showOut.Stop()
	v.inside.Wait()
}
