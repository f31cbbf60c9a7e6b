package egress

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/fdbased"
	"gvisor.dev/gvisor/pkg/tcpip/network/arp"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/icmp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"

	"aloft/internal/policy"
)

// A guest is a simulated machine with its own stack at the other end of a
// gateway's link. The link is a socket pair that carries real packets and needs
// no root.
type guest struct {
	t     testing.TB
	stack *stack.Stack
	g     *Gateway
	names sync.Map // the host's resolver: name → []netip.Addr
}

func newGuest(t testing.TB, n policy.Network) *guest {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		for _, o := range []int{unix.SO_SNDBUF, unix.SO_RCVBUF} {
			_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, o, 4<<20)
		}
	}
	gu := &guest{t: t}
	gu.g, err = New(Config{Device: os.NewFile(uintptr(fds[0]), "gateway"), Policy: n, Lookup: gu.lookup})
	if err != nil {
		t.Fatal(err)
	}
	s := stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol, ipv6.NewProtocol, arp.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol, icmp.NewProtocol4, icmp.NewProtocol6},
	})
	ep, err := fdbased.New(&fdbased.Options{
		FDs: fds[1:], MTU: MTU, EthernetHeader: true, Address: "\x02\x00\x00\x00\x00\x02",
		GSOMaxSize: largestSegment, RXChecksumOffload: true, // the kernel does the same on a TAP device
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.CreateNIC(nicID, ep); err != nil {
		t.Fatal(err)
	}
	for _, a := range []struct {
		addr  netip.Addr
		bits  int
		proto tcpip.NetworkProtocolNumber
	}{{MachineV4, 24, ipv4.ProtocolNumber}, {MachineV6, 64, ipv6.ProtocolNumber}} {
		if err := s.AddProtocolAddress(nicID, tcpip.ProtocolAddress{Protocol: a.proto, AddressWithPrefix: tcpip.AddressWithPrefix{
			Address: tcpip.AddrFromSlice(a.addr.AsSlice()), PrefixLen: a.bits,
		}}, stack.AddressProperties{}); err != nil {
			t.Fatal(err)
		}
	}
	link4, _ := tcpip.NewSubnet(tcpip.AddrFromSlice([]byte{172, 30, 0, 0}), tcpip.MaskFromBytes([]byte{255, 255, 255, 0}))
	s.SetRouteTable([]tcpip.Route{
		{Destination: link4, NIC: nicID},
		{Destination: header.IPv4EmptySubnet, Gateway: tcpip.AddrFromSlice(GatewayV4.AsSlice()), NIC: nicID},
		{Destination: header.IPv6EmptySubnet, Gateway: tcpip.AddrFromSlice(GatewayV6.AsSlice()), NIC: nicID},
	})
	gu.stack = s
	t.Cleanup(func() {
		if err := gu.g.Close(); err != nil {
			t.Error(err)
		}
		s.Destroy()
		_ = unix.Close(fds[1])
	})
	return gu
}

// knows adds a name to the host's resolver.
func (gu *guest) knows(name string, addrs ...string) {
	var all []netip.Addr
	for _, a := range addrs {
		all = append(all, netip.MustParseAddr(a))
	}
	gu.names.Store(name, all)
}

func (gu *guest) lookup(_ context.Context, network, name string) ([]netip.Addr, error) {
	var out []netip.Addr
	if v, ok := gu.names.Load(name[:len(name)-1]); ok {
		for _, a := range v.([]netip.Addr) {
			if a.Is4() == (network == "ip4") {
				out = append(out, a)
			}
		}
	}
	if len(out) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	return out, nil
}

// dial opens a TCP connection from the machine.
func (gu *guest) dial(to netip.AddrPort) (*gonet.TCPConn, error) {
	ctx, cancel := context.WithTimeout(gu.t.Context(), 2*time.Minute)
	defer cancel()
	proto := ipv4.ProtocolNumber
	if to.Addr().Is6() {
		proto = ipv6.ProtocolNumber
	}
	return gonet.DialContextTCP(ctx, gu.stack, tcpip.FullAddress{NIC: nicID, Addr: tcpip.AddrFromSlice(to.Addr().AsSlice()), Port: to.Port()}, proto)
}

// resolve looks up a name over UDP, and returns the first address.
func (gu *guest) resolve(name string) (netip.Addr, error) {
	gu.t.Helper()
	r := net.Resolver{PreferGo: true, Dial: func(_ context.Context, network, _ string) (net.Conn, error) {
		server := tcpip.FullAddress{NIC: nicID, Addr: tcpip.AddrFromSlice(GatewayV4.AsSlice()), Port: dnsPort}
		if network == "tcp" {
			return gonet.DialTCP(gu.stack, server, ipv4.ProtocolNumber)
		}
		return gonet.DialUDP(gu.stack, nil, &server, ipv4.ProtocolNumber)
	}}
	all, err := r.LookupNetIP(gu.t.Context(), "ip", name+".")
	if err != nil {
		return netip.Addr{}, err
	}
	return all[0].Unmap(), nil
}

// await waits for a closed connection for which wanted returns true, and
// returns the first one.
func (gu *guest) await(wanted func(policy.Connection) bool) policy.Connection {
	gu.t.Helper()
	late := time.After(2 * time.Minute)
	for after := uint64(0); ; {
		ended, more := gu.g.ledger.after(after, maxRecords)
		for _, c := range ended {
			if wanted(c) {
				return c
			}
			after = c.Seq
		}
		select {
		case <-more:
		case <-late:
			all, _ := gu.g.ledger.after(0, maxRecords)
			gu.t.Fatalf("no such record: %+v", all)
		}
	}
}

// serve listens on the host's loopback and calls handle for each connection.
func serve(t testing.TB, handle func(*net.TCPConn)) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer func() { _ = conn.Close() }()
				handle(conn.(*net.TCPConn))
			})
		}
	})
	at := l.Addr().(*net.TCPAddr).AddrPort()
	return netip.AddrPortFrom(GatewayV4, at.Port()) // the address under which the machine reaches the host
}

// echo sends back everything that it receives.
func echo(conn *net.TCPConn) {
	_, _ = io.Copy(conn, conn) // the client reports errors
}

// loopback returns a policy that allows the host's loopback.
func loopback(mode policy.Mode, allow ...string) policy.Network {
	return policy.Network{Mode: mode, Allow: allow, Open: []string{"127.0.0.1/32"}}
}

func exchange(conn net.Conn, words string) (string, error) {
	if _, err := io.WriteString(conn, words); err != nil {
		return "", err
	}
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		if err := half.CloseWrite(); err != nil {
			return "", err
		}
	}
	all, err := io.ReadAll(conn)
	if err != nil {
		return "", fmt.Errorf("after %d bytes: %w", len(all), err)
	}
	return string(all), nil
}
