package container

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"aloft/internal/control/egress"
	"aloft/internal/control/machine"
	"aloft/internal/control/machine/container/link"
	"aloft/internal/control/machine/container/process"
	"aloft/internal/need"
	"aloft/internal/policy"
)

// gatewayOfLink creates a link and its egress process, and returns the link's
// namespace and the process's PID.
func gatewayOfLink(t testing.TB, n policy.Network) (namespace *os.File, pid int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	m := &Machine{r: &Runtime{conf: Config{Gateway: []string{self, gatewayChild}, ConnectionLogs: egress.Logs(t.TempDir())}}, dir: t.TempDir()}
	t.Cleanup(func() {
		if err := process.KillBearing(context.Background(), m.gatewayFlag()); err != nil {
			t.Error(err)
		}
	})
	l, wait, err := m.startGateway(machine.Spec{Network: n, ConnectionLog: "log"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Namespace.Close() })
	if err := errors.Join(wait(t.Context()), l.Device.Close()); err != nil {
		t.Fatal(err)
	}
	pid, err = process.PID(m.path(filepath.Join("link", gatewayProcess)))
	if err != nil {
		t.Fatal(err)
	}
	return l.Namespace, pid
}

// onThread runs enter and then do on a new thread, which ends afterwards.
func onThread(enter, do func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		err := enter()
		if err == nil {
			err = do()
		}
		done <- err
	}()
	return <-done
}

// TestLinkCutsSegments sends more data at once than fits into a segment, in
// both directions and with several segment sizes. A container with a small MTU
// in the machine uses a small segment size. The data must arrive unchanged.
func TestLinkCutsSegments(t *testing.T) {
	need.Root(t)
	namespace, _ := gatewayOfLink(t, policy.Network{Mode: policy.AllowAll, Open: []string{"127.0.0.1/32", "::1/128"}})
	want := make([]byte, 8<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(want) // never fails
	for network, side := range map[string]struct{ host, seen string }{
		"tcp4": {"127.0.0.1", link.GatewayV4},
		"tcp6": {"::1", egress.GatewayV6.String()},
	} {
		for name, segment := range map[string]int{"small": 1000, "odd": 1461, "the link's": 0} {
			t.Run(network+" "+name, func(t *testing.T) {
				l, err := net.Listen(network, net.JoinHostPort(side.host, "0"))
				if err != nil && network == "tcp6" {
					t.Log("this host has no IPv6, and so its machines have none")
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = l.Close() }()
				var group errgroup.Group
				group.Go(func() error {
					conn, err := l.Accept()
					if err != nil {
						return err
					}
					_, err = io.Copy(conn, conn)
					return errors.Join(err, conn.Close())
				})
				_, port, _ := net.SplitHostPort(l.Addr().String())
				var conn net.Conn
				err = onThread(func() error { return unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET) }, func() error {
					d := net.Dialer{Timeout: 10 * time.Second, Control: func(_, _ string, raw syscall.RawConn) error {
						if segment == 0 {
							return nil
						}
						var failed error
						err := raw.Control(func(fd uintptr) {
							failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, segment)
						})
						return errors.Join(err, failed)
					}}
					var err error
					conn, err = d.DialContext(t.Context(), network, net.JoinHostPort(side.seen, port))
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				group.Go(func() error {
					_, err := conn.Write(want)
					return errors.Join(err, conn.(*net.TCPConn).CloseWrite())
				})
				var got strings.Builder
				group.Go(func() error {
					_, err := io.Copy(&got, conn)
					return err
				})
				if err := group.Wait(); err != nil {
					t.Fatal(err)
				}
				if got.String() != string(want) {
					t.Errorf("%d bytes came back, and not those that were sent", got.Len())
				}
				_ = conn.Close()
			})
		}
	}
}
