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

// While the machine is saved with its memory.
const (
	hangUp   = time.Second          // for the control plane to end its connections by itself
	restMost = 30 * time.Second     // of the machine's own time, which stands still while it is saved
	restLook = 5 * time.Millisecond // between two looks for wokenFile
	// wokenFile is in the folder of the socket once the machine has been started from
	// its memory: the runtime puts it there.
	wokenFile = "woken"
)

// Quiesce is pod.v1's. The reply comes before it is done; it is done when the
// socket is gone.
func (s *podServer) Quiesce(context.Context, *connect.Request[podv1.QuiesceRequest]) (*connect.Response[podv1.QuiesceResponse], error) {
	select {
	case s.d.rest <- struct{}{}:
	default: // it is about to already
	}
	return connect.NewResponse(&podv1.QuiesceResponse{}), nil
}

// serveControl serves the control plane on the socket until ctx ends, and lets
// go of it whenever the machine is to be saved.
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
			l.SetUnlinkOnClose(false) // that it is gone is the sign that all is
		}
		_ = socket.Close()
		<-ended
		in.end(hangUp)
		d.cfg.Log.Info("the machine is about to be saved")
		if err := d.awaitWaking(ctx); err != nil || ctx.Err() != nil {
			return err
		}
		var err error
		if socket, err = listenSocket(ctx, d.cfg.Socket); err != nil {
			return err
		}
		d.cfg.Log.Info("the machine goes on")
	}
}

// awaitWaking says that the machine can be saved, and returns when it has been
// started again, or was not saved after all.
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

// visitors are the connections that came over one socket. The zero value is
// ready; its methods are safe for concurrent use.
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

// end returns when all have gone, having shown out those who are there after a
// while. Nobody comes in meanwhile.
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
