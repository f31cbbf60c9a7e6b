package container

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"aloft/internal/control/egress"
	"aloft/internal/policy"
)

// clients connect at once where the rate of connections is measured.
const clients = 16

// BenchmarkNetwork compares a machine's link, its gateway and the host's
// loopback behind it with the loopback alone. The client is a thread of this
// process that lives in the link's namespace, so that both sides pay the same.
func BenchmarkNetwork(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("needs root")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	go serveBench(l)
	port := l.Addr().(*net.TCPAddr).Port
	link, err := makeLink()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = link.namespace.Close() })
	g, err := egress.New(egress.Config{Device: link.device, Policy: policy.Network{Open: []string{"127.0.0.1/32"}}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = g.Close() })
	for name, side := range map[string]struct {
		enter func() error
		addr  string
	}{
		"loopback": {func() error { return nil }, fmt.Sprintf("127.0.0.1:%d", port)},
		"gateway":  {func() error { return unix.Setns(int(link.namespace.Fd()), unix.CLONE_NEWNET) }, fmt.Sprintf("%s:%d", gatewayV4, port)},
	} {
		inside := func(b *testing.B, do func()) {
			b.Helper()
			done := make(chan error)
			go func() {
				runtime.LockOSThread() // the thread ends with the goroutine
				err := side.enter()
				if err == nil {
					do()
				}
				done <- err
			}()
			if err := <-done; err != nil {
				b.Error(err)
			}
		}
		for what, first := range map[string]byte{"down": 'd', "up": 'u'} {
			b.Run(name+"/"+what, func(b *testing.B) {
				const size = 256 << 20
				b.SetBytes(size)
				inside(b, func() {
					for b.Loop() {
						if err := transfer(side.addr, first, size); err != nil {
							b.Error(err)
							return
						}
					}
				})
			})
		}
		b.Run(name+"/connect", func(b *testing.B) {
			inside(b, func() {
				for b.Loop() {
					if err := transfer(side.addr, 'd', 1); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
		// The same, of many clients at once.
		b.Run(name+"/rate", func(b *testing.B) {
			var group sync.WaitGroup
			var left atomic.Int64
			left.Store(int64(b.N))
			for range clients {
				group.Go(func() {
					inside(b, func() {
						for left.Add(-1) >= 0 {
							if err := transfer(side.addr, 'd', 1); err != nil {
								b.Error(err)
								return
							}
						}
					})
				})
			}
			group.Wait()
		})
	}
}

// serveBench sends or takes as many bytes as it is told.
func serveBench(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = conn.Close() }()
			var head [9]byte
			if _, err := io.ReadFull(conn, head[:]); err != nil {
				return
			}
			left := int64(binary.BigEndian.Uint64(head[1:]))
			if head[0] == 'u' {
				_, _ = io.CopyN(io.Discard, conn, left) // the other end counts
				_, _ = conn.Write([]byte{0})
				return
			}
			buf := make([]byte, 256<<10)
			for left > 0 {
				n, err := conn.Write(buf[:min(left, int64(len(buf)))])
				if err != nil {
					return
				}
				left -= int64(n)
			}
		}()
	}
}

// transfer makes a connection and moves that many bytes over it, with plain
// system calls on the thread that it is called on.
func transfer(addr string, way byte, size int64) error {
	to, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: to.Port, Addr: [4]byte(to.IP.To4())}); err != nil {
		return err
	}
	head := append([]byte{way}, binary.BigEndian.AppendUint64(nil, uint64(size))...)
	if _, err := unix.Write(fd, head); err != nil {
		return err
	}
	buf := make([]byte, min(max(size, 1), 256<<10))
	for left := size; way == 'u' && left > 0; {
		n, err := unix.Write(fd, buf[:min(left, int64(len(buf)))])
		if err != nil {
			return err
		}
		left -= int64(n)
	}
	want := size
	if way == 'u' {
		want = 1
	}
	for want > 0 {
		n, err := unix.Read(fd, buf)
		if err != nil || n == 0 {
			return fmt.Errorf("%d bytes are missing: %w", want, err)
		}
		want -= int64(n)
	}
	return nil
}
