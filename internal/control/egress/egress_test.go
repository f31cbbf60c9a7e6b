package egress

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"

	"aloft/internal/loopbacktest"
	"aloft/internal/policy"
)

func TestHalfClose(t *testing.T) {
	gu := newGuest(t, loopback(policy.AllowAll))
	at := serve(t, func(c *net.TCPConn) {
		all, _ := io.ReadAll(c) // the reply contains the received bytes
		_, _ = c.Write(append([]byte("got "), all...))
	})
	conn, err := gu.dial(at)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := exchange(conn, "everything"); err != nil || got != "got everything" {
		t.Errorf("%q, %v", got, err)
	}
	_ = conn.Close()
	c := gu.await(func(c policy.Connection) bool { return c.Sent == 10 && c.Received == 14 })
	if !c.Allowed || c.Network != "tcp" || c.Error != "" || c.Seq == 0 {
		t.Errorf("%+v", c)
	}
}

func TestLargeBothWays(t *testing.T) {
	gu := newGuest(t, loopback(policy.AllowAll))
	at := serve(t, echo)
	conn, err := gu.dial(at)
	if err != nil {
		t.Fatal(err)
	}
	const size = 64 << 20
	block := bytes.Repeat([]byte("0123456789abcdef"), 4<<10)
	sent, got := sha256.New(), sha256.New()
	var write sync.WaitGroup
	write.Go(func() {
		for range size / len(block) {
			sent.Write(block)
			if _, err := conn.Write(block); err != nil {
				t.Error(err)
				return
			}
		}
		_ = conn.CloseWrite()
	})
	n, err := io.Copy(got, conn)
	write.Wait()
	if err != nil || n != size || !bytes.Equal(sent.Sum(nil), got.Sum(nil)) {
		t.Errorf("%d bytes came back, %v", n, err)
	}
	_ = conn.Close()
}

// TestBackpressure checks that a slow reader delays only its own connection,
// and that the data buffered for it is limited.
func TestBackpressure(t *testing.T) {
	gu := newGuest(t, loopback(policy.AllowAll))
	var wrote sync.WaitGroup
	wrote.Add(1)
	endless := serve(t, func(c *net.TCPConn) {
		defer wrote.Done()
		_ = c.SetWriteBuffer(64 << 10)
		var total int
		for {
			_ = c.SetWriteDeadline(time.Now().Add(time.Second))
			n, err := c.Write(make([]byte, 64<<10))
			if total += n; err != nil {
				break
			}
		}
		if total > 64<<20 {
			t.Errorf("%d bytes went to nobody", total)
		}
	})
	slow, err := gu.dial(endless)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = slow.Close() }()
	quick, err := gu.dial(serve(t, echo))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := exchange(quick, "hello"); err != nil || got != "hello" {
		t.Errorf("%q, %v", got, err)
	}
	_ = quick.Close()
	wrote.Wait()
}

// TestPortIsUsedAgain checks that a machine can reuse a port once its
// connection is closed.
func TestPortIsUsedAgain(t *testing.T) {
	gu := newGuest(t, loopback(policy.AllowAll))
	at := serve(t, func(c *net.TCPConn) { _, _ = c.Write([]byte("x")) }) // the server closes first
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	from := tcpip.FullAddress{NIC: nicID, Addr: tcpip.AddrFromSlice(MachineV4.AsSlice()), Port: 40000}
	to := tcpip.FullAddress{NIC: nicID, Addr: tcpip.AddrFromSlice(at.Addr().AsSlice()), Port: at.Port()}
	for i := range 30 {
		conn, err := gonet.DialTCPWithBind(ctx, gu.stack, from, to, ipv4.ProtocolNumber)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		if all, err := io.ReadAll(conn); err != nil || string(all) != "x" {
			t.Errorf("connection %d: %q, %v", i, all, err)
		}
		_ = conn.Close()
		// Wait until both stacks have closed the connection:
		for gu.stack.Stats().TCP.CurrentConnected.Value()+gu.g.stack.Stats().TCP.CurrentConnected.Value() > 0 {
			if ctx.Err() != nil {
				t.Fatalf("connection %d is never over", i)
			}
			runtime.Gosched()
		}
	}
}

func TestResets(t *testing.T) {
	gu := newGuest(t, loopback(policy.AllowAll))
	t.Run("from outside", func(t *testing.T) {
		conn, err := gu.dial(serve(t, func(c *net.TCPConn) {
			_, _ = io.ReadFull(c, make([]byte, 1))
			_ = c.SetLinger(0)
		}))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(conn); err == nil || !strings.Contains(err.Error(), "reset") {
			t.Errorf("the machine sees %v", err)
		}
		_ = conn.Close()
	})
	t.Run("from inside", func(t *testing.T) {
		seen := make(chan error, 1)
		at := serve(t, func(c *net.TCPConn) {
			_, err := io.ReadAll(c)
			seen <- err
		})
		var wq waiter.Queue
		ep, terr := gu.stack.NewEndpoint(tcp.ProtocolNumber, ipv4.ProtocolNumber, &wq)
		if terr != nil {
			t.Fatal(terr)
		}
		entry, ready := waiter.NewChannelEntry(waiter.WritableEvents)
		wq.EventRegister(&entry)
		terr = ep.Connect(tcpip.FullAddress{NIC: nicID, Addr: tcpip.AddrFromSlice(at.Addr().AsSlice()), Port: at.Port()})
		if _, ok := terr.(*tcpip.ErrConnectStarted); !ok {
			t.Fatal(terr)
		}
		<-ready
		ep.Abort()
		if err := <-seen; err == nil {
			t.Error("the outside sees an orderly end")
		}
	})
}

func TestRefusedAndBlocked(t *testing.T) {
	gu := newGuest(t, loopback(policy.AllowAll))
	closed := netip.AddrPortFrom(GatewayV4, netip.MustParseAddrPort(loopbacktest.Closed(t)).Port())
	for _, to := range []string{
		closed.String(), "169.254.169.254:80", "10.0.0.1:80", "192.168.1.1:22", "127.0.0.2:80", "100.64.0.1:80", "[fd00::2]:80", "[fe80::1]:80", "[::ffff:10.0.0.1]:80", "0.0.0.1:80",
	} {
		at := netip.MustParseAddrPort(to)
		if at.Addr().Is4In6() {
			at = netip.AddrPortFrom(at.Addr(), at.Port())
		}
		if at.Addr().IsLoopback() || at.Addr().IsLinkLocalUnicast() && at.Addr().Is6() {
			continue // these packets never leave the machine's stack
		}
		conn, err := gu.dial(at)
		if err == nil {
			_ = conn.Close()
			t.Errorf("%s was reached", to)
		}
	}
	for _, rule := range []string{"169.254.0.0/16", "10.0.0.0/8", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"} {
		gu.await(func(c policy.Connection) bool { return !c.Allowed && c.Rule == "always blocked "+rule })
	}
	gu.await(func(c policy.Connection) bool { return c.Allowed && c.Error == "connection refused" })
}

func TestHostAddressesAreTheHost(t *testing.T) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	g := &Gateway{}
	m, err := policy.Network{Open: []string{"0.0.0.0/0"}}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	g.policy.Store(m)
	for _, a := range addrs {
		addr := netip.MustParsePrefix(a.String()).Addr()
		if !g.host.has(addr) {
			t.Errorf("%s is not known as the host's", addr)
		}
		if addr.Is4() && !g.judge(addr, nil).Allowed {
			t.Errorf("%s was opened and is refused", addr)
		}
	}
	if g.host.has(netip.MustParseAddr("192.0.2.1")) {
		t.Error("a stranger's address is the host's")
	}
}

func TestManyConnections(t *testing.T) {
	gu := newGuest(t, loopback(policy.AllowAll))
	at := serve(t, echo)
	const many = 1000
	var open, all sync.WaitGroup
	open.Add(many)
	for range many {
		all.Go(func() {
			conn, err := gu.dial(at)
			open.Done()
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.Close() }()
			open.Wait() // all connections are open at the same time
			if got, err := exchange(conn, "hello"); err != nil || got != "hello" {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	all.Wait()
}

func TestTooManyConnectionsAreRefused(t *testing.T) {
	gu := newGuest(t, loopback(policy.AllowAll))
	at := serve(t, echo)
	gu.g.conns.Store(maxConns)
	if conn, err := gu.dial(at); err == nil {
		_ = conn.Close()
		t.Error("one more than the most was opened")
	}
	gu.g.conns.Store(0)
	conn, err := gu.dial(at)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
}

func TestUDP(t *testing.T) {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	go func() {
		buf := make([]byte, maxDatagram)
		for {
			n, from, err := server.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = server.WriteTo(buf[:n], from)
		}
	}()
	port := server.LocalAddr().(*net.UDPAddr).AddrPort().Port()
	gu := newGuest(t, loopback(policy.AllowAll))
	dial := func() *gonet.UDPConn {
		conn, err := gonet.DialUDP(gu.stack, nil, &tcpip.FullAddress{NIC: nicID, Addr: tcpip.AddrFromSlice(GatewayV4.AsSlice()), Port: port}, ipv4.ProtocolNumber)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))
		return conn
	}
	conn := dial()
	for _, size := range []int{1, 1400, 60000} {
		said := bytes.Repeat([]byte("x"), size)
		if _, err := conn.Write(said); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, maxDatagram)
		if n, err := conn.Read(buf); err != nil || n != size {
			t.Errorf("%d of %d bytes, %v", n, size, err)
		}
	}
	// A list of domains does not allow UDP, because the gateway cannot read a
	// server name from UDP packets.
	if err := gu.g.SetPolicy(loopback(policy.List, "host.aloft.internal")); err != nil {
		t.Fatal(err)
	}
	other := dial()
	_ = other.SetDeadline(time.Now().Add(time.Second / 2))
	_, _ = other.Write([]byte("x"))
	if _, err := other.Read(make([]byte, 10)); err == nil {
		t.Error("UDP passed a list of domains")
	}
	gu.await(func(c policy.Connection) bool { return c.Network == "udp" && !c.Allowed })
	_ = conn.Close()
	_ = other.Close()
}

func TestSetPolicyCuts(t *testing.T) {
	gu := newGuest(t, loopback(policy.AllowAll))
	conn, err := gu.dial(serve(t, echo))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := gu.g.SetPolicy(policy.Network{Mode: "odd"}); err == nil {
		t.Error("a policy that is none was taken")
	}
	if err := gu.g.SetPolicy(loopback(policy.None)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("the connection goes on, or ended in order: %v", err)
	}
	gu.await(func(c policy.Connection) bool { return !c.Allowed && c.Rule == "mode none" && c.Sent == 1 })
	_ = conn.Close()
}
