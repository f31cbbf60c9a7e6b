package pod_test

import (
	"context"
	"net"
	"testing"

	"aloft/internal/control/machine"
	"aloft/internal/control/pod"
	"aloft/internal/wire/mux"
)

// flooding is a machine whose pod-daemon accepts every port, and opens streams
// to the server on the connection for a port.
type flooding struct {
	machine.Machine
	opened chan error
}

func (flooding) ID() string { return "flooding" }

func (f flooding) Dial(context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	peer, err := mux.Server(theirs)
	if err != nil {
		return nil, err
	}
	go func() {
		_ = peer.Serve(func(_ string, s net.Conn) {
			_, _ = s.Write([]byte{0})
			for range 256 { // 64 MiB, if the server accepts them
				o, err := peer.Open(context.Background(), mux.Git)
				if err == nil {
					_, err = o.Write(make([]byte, 255<<10))
				}
				if err != nil {
					f.opened <- err
					return
				}
			}
			f.opened <- nil
		})
	}()
	return ours, nil
}

// The connection for a port is no way to make the server hold more data: a page
// of a preview can make a browser open hundreds of them.
func TestPortHoldsLittle(t *testing.T) {
	t.Parallel()
	m := flooding{opened: make(chan error, 1)}
	conn, err := pod.DialPort(t.Context(), m, 80)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := <-m.opened; err == nil {
		t.Error("the server took 64 MiB over the connection for a port")
	}
}
