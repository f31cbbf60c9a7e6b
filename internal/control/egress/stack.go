package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/fdbased"
	"gvisor.dev/gvisor/pkg/tcpip/link/nested"
	"gvisor.dev/gvisor/pkg/tcpip/network/arp"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/icmp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
)

// nicID is the stack's one interface.
const nicID tcpip.NICID = 1

// linkAddress is the gateway's on the link: locally administered.
const linkAddress = tcpip.LinkAddress("\x02\x0a\x10\x0f\x00\x01")

// Sizes of a TCP connection's buffers in the stack, in bytes. Those of a
// connection grow to the largest while there are few, and stay at the smallest
// where there are many, which bounds what a machine makes its gateway hold.
const (
	leastBuffer = 64 << 10
	usualBuffer = 1 << 20
	mostBuffer  = 4 << 20
	manyConns   = 128
)

// lingerTime is how long a closed connection's numbers are kept.
const lingerTime = 5 * time.Second

// openLink makes the link of a TAP device.
func openLink(device *os.File) (stack.LinkEndpoint, error) {
	return fdbased.New(&fdbased.Options{
		FDs: []int{int(device.Fd())}, MTU: MTU, EthernetHeader: true, Address: linkAddress,
		PacketDispatchMode: fdbased.Readv,
		RXChecksumOffload:  true, // the packets come from this kernel and cross no wire
	})
}

// startStack starts the stack on a link.
func (g *Gateway) startStack(link stack.LinkEndpoint) error {
	s := stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol, ipv6.NewProtocol, arp.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol, icmp.NewProtocol4, icmp.NewProtocol6},
	})
	if err := g.configure(s); err != nil {
		s.Close()
		return err
	}
	g.stack = s
	s.SetTransportProtocolHandler(tcp.ProtocolNumber, tcp.NewForwarder(s, usualBuffer, maxDialing, g.acceptTCP).HandlePacket)
	s.SetTransportProtocolHandler(udp.ProtocolNumber, udp.NewForwarder(s, g.acceptUDP).HandlePacket)
	f := &filter{}
	f.Init(link, f)
	if err := s.CreateNIC(nicID, f); err != nil {
		s.Close()
		return errors.New(err.String())
	}
	if err := g.address(s); err != nil {
		s.Close()
		return err
	}
	return g.serveDNS()
}

// configure sets what holds for every connection.
func (g *Gateway) configure(s *stack.Stack) error {
	var (
		sack     = tcpip.TCPSACKEnabled(true)
		moderate = tcpip.TCPModerateReceiveBufferOption(true)
		receive  = tcpip.TCPReceiveBufferSizeRangeOption{Min: 4 << 10, Default: usualBuffer, Max: mostBuffer}
		send     = tcpip.TCPSendBufferSizeRangeOption{Min: 4 << 10, Default: usualBuffer, Max: mostBuffer}
		linger   = tcpip.TCPTimeWaitTimeoutOption(lingerTime)
	)
	for _, o := range []tcpip.SettableTransportProtocolOption{&sack, &moderate, &receive, &send, &linger} {
		if err := s.SetTransportProtocolOption(tcp.ProtocolNumber, o); err != nil {
			return fmt.Errorf("%T: %s", o, err)
		}
	}
	return nil
}

// address gives the stack its own addresses, and has it take packets for all
// others too.
func (g *Gateway) address(s *stack.Stack) error {
	for _, a := range []struct {
		addr  netip.Addr
		bits  int
		proto tcpip.NetworkProtocolNumber
	}{{GatewayV4, 24, ipv4.ProtocolNumber}, {GatewayV6, 64, ipv6.ProtocolNumber}} {
		at := tcpip.ProtocolAddress{Protocol: a.proto, AddressWithPrefix: tcpip.AddressWithPrefix{
			Address: tcpip.AddrFromSlice(a.addr.AsSlice()), PrefixLen: a.bits,
		}}
		if err := s.AddProtocolAddress(nicID, at, stack.AddressProperties{}); err != nil {
			return errors.New(err.String())
		}
	}
	if err := s.SetPromiscuousMode(nicID, true); err != nil {
		return errors.New(err.String())
	}
	if err := s.SetSpoofing(nicID, true); err != nil {
		return errors.New(err.String())
	}
	s.SetRouteTable([]tcpip.Route{
		{Destination: header.IPv4EmptySubnet, NIC: nicID},
		{Destination: header.IPv6EmptySubnet, NIC: nicID},
	})
	return nil
}

// A filter lies between the link and the stack. It drops what does not come
// from the machine's own address, and echo requests to others than the
// gateway: the stack, taking every address for its own, would answer them.
type filter struct{ nested.Endpoint }

// DeliverNetworkPacket is the link's way to the stack.
func (f *filter) DeliverNetworkPacket(protocol tcpip.NetworkProtocolNumber, pkt *stack.PacketBuffer) {
	switch protocol {
	case ipv4.ProtocolNumber:
		h, ok := pkt.Data().PullUp(header.IPv4MinimumSize)
		if !ok || !keepV4(h) {
			return
		}
	case ipv6.ProtocolNumber:
		h, ok := pkt.Data().PullUp(header.IPv6MinimumSize)
		if !ok || !keepV6(h) {
			return
		}
	}
	f.Endpoint.DeliverNetworkPacket(protocol, pkt)
}

// keepV4 judges an IPv4 header of at least 20 bytes.
func keepV4(h []byte) bool {
	if [4]byte(h[12:16]) != MachineV4.As4() {
		return false
	}
	return h[9] != uint8(header.ICMPv4ProtocolNumber) || [4]byte(h[16:20]) == GatewayV4.As4()
}

// keepV6 judges an IPv6 header of at least 40 bytes. Neighbours are found by
// link-local and multicast addresses.
func keepV6(h []byte) bool {
	from, to := netip.AddrFrom16([16]byte(h[8:24])), netip.AddrFrom16([16]byte(h[24:40]))
	icmp6 := h[6] == uint8(header.ICMPv6ProtocolNumber)
	if from != MachineV6 {
		return icmp6 && (from.IsLinkLocalUnicast() || from.IsUnspecified())
	}
	return !icmp6 || to == GatewayV6 || to.IsMulticast() || to.IsLinkLocalUnicast()
}
