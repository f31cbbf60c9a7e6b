package container

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"aloft/internal/control/machine/container/link"
	"aloft/internal/need"
	"aloft/internal/policy"
)

// Sizes of one round of BenchmarkNetwork.
const (
	transferSize = 256 << 20 // bytes
	connects     = 50        // sequential
	clients      = 16        // concurrent
	clientsEach  = 25        // connections per client
)

// BenchmarkNetwork compares traffic through a machine's link and egress process
// with traffic over plain loopback. The measurements alternate, and medians are
// reported. The egress process runs separately, as in production. The client is
// a thread of this process in the link's namespace, so that client and server
// cost the same in both cases.
func BenchmarkNetwork(b *testing.B) {
	need.Root(b)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	go serveBench(l)
	port := l.Addr().(*net.TCPAddr).Port
	namespace, gateway := gatewayOfLink(b, opened(policy.AllowAll))
	sides := []struct {
		name  string
		enter func() error
		addr  string
	}{
		{"yardstick", func() error { return nil }, fmt.Sprintf("127.0.0.1:%d", port)},
		{"op", func() error { return unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET) }, fmt.Sprintf("%s:%d", link.GatewayV4, port)},
	}
	for _, work := range []struct {
		name string
		way  byte
		size int64
		at   int // for one transfer at a time
		each int // for sequential connections
	}{
		{"down", 'd', transferSize, 1, 1},
		{"up", 'u', transferSize, 1, 1},
		{"connect", 'd', 1, 1, connects},
		{"rate", 'd', 1, clients, clientsEach},
	} {
		b.Run(work.name, func(b *testing.B) {
			took := make([][]float64, len(sides)) // nanoseconds
			cpu := make([][]float64, len(sides))  // nanoseconds, of this process and the egress process together
			for b.Loop() {
				for i, side := range sides {
					var group errgroup.Group
					before, began := cpuTime(b, gateway), time.Now()
					for range work.at {
						group.Go(func() error {
							return onThread(side.enter, func() error {
								for range work.each {
									if err := transfer(side.addr, work.way, work.size); err != nil {
										return err
									}
								}
								return nil
							})
						})
					}
					if err := group.Wait(); err != nil {
						b.Fatal(err)
					}
					times := float64(work.at * work.each)
					took[i] = append(took[i], float64(time.Since(began))/times)
					cpu[i] = append(cpu[i], float64(cpuTime(b, gateway)-before)/times)
				}
			}
			for i, side := range sides {
				slices.Sort(took[i])
				slices.Sort(cpu[i])
				b.ReportMetric(took[i][len(took[i])/2], "ns/"+side.name)
				b.ReportMetric(cpu[i][len(cpu[i])/2], "cpu-ns/"+side.name)
			}
		})
	}
}

// cpuTime returns the CPU time used by this process and process pid.
func cpuTime(b *testing.B, pid int) time.Duration {
	b.Helper()
	var total time.Duration
	for _, clock := range []int32{unix.CLOCK_PROCESS_CPUTIME_ID, int32(^pid)<<3 | 2} { // clock_getcpuclockid(3)
		var t unix.Timespec
		if err := unix.ClockGettime(clock, &t); err != nil {
			b.Fatal(err)
		}
		total += time.Duration(t.Nano())
	}
	return total
}

// serveBench sends or receives as many bytes as the client requests.
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
				_, _ = io.CopyN(io.Discard, conn, left) // the client counts
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

// transfer opens a connection and transfers size bytes. It uses plain system
// calls, so that it stays on the calling thread.
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
