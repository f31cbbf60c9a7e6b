package egress

import (
	"errors"
	"fmt"
	"net/netip"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/header/parse"
	"gvisor.dev/gvisor/pkg/tcpip/link/nested"
	"gvisor.dev/gvisor/pkg/tcpip/network/arp"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/icmp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
)

// nicID is the id of the stack's only interface.
const nicID tcpip.NICID = 1

// Buffer sizes of a TCP connection in the stack, in bytes. Buffers grow to the
// maximum while there are few connections, and stay at the minimum when there
// are many, which bounds the gateway's memory.
const (
	leastBuffer = 64 << 10
	usualBuffer = 1 << 20
	mostBuffer  = 4 << 20
	manyConns   = 128
)

// lingerTime is the TIME_WAIT period: zero. The link does not reorder packets,
// and a machine that opens many connections reuses ports so soon that the stack
// would reject them.
const lingerTime = 0

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
	f := &filter{stack: s}
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

// configure sets the options for all connections.
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

// address assigns the stack its own addresses, and makes it accept packets to
// all other addresses too.
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

// A filter sits between the link and the stack. It drops packets that do not
// come from the machine's own address, and rejects ICMP to addresses other than
// the gateway's: the stack accepts packets to every address, so it would answer
// pings to all of them.
type filter struct {
	nested.Endpoint
	stack *stack.Stack
}

// DeliverNetworkPacket passes a packet from the link to the stack, if allowed.
func (f *filter) DeliverNetworkPacket(protocol tcpip.NetworkProtocolNumber, pkt *stack.PacketBuffer) {
	does := pass
	switch protocol {
	case ipv4.ProtocolNumber:
		does = drop
		if h, ok := pkt.Data().PullUp(header.IPv4MinimumSize); ok {
			does = judgeV4(h)
		}
	case ipv6.ProtocolNumber:
		does = drop
		if h, ok := pkt.Data().PullUp(header.IPv6MinimumSize); ok {
			does = judgeV6(h)
		}
	}
	switch does {
	case pass:
		f.Endpoint.DeliverNetworkPacket(protocol, pkt)
	case refuse:
		f.refuse(protocol, pkt)
	}
}

// refuse tells the machine that the packet is administratively prohibited. The
// stack limits the rate of such messages.
func (f *filter) refuse(protocol tcpip.NetworkProtocolNumber, pkt *stack.PacketBuffer) {
	pkt.NICID = nicID
	switch h := f.stack.NetworkProtocolInstance(protocol).(type) {
	case stack.RejectIPv4WithHandler:
		if parse.IPv4(pkt) && parse.ICMPv4(pkt) {
			_ = h.SendRejectionError(pkt, stack.RejectIPv4WithICMPAdminProhibited, false) // on error, the packet is dropped silently
		}
	case stack.RejectIPv6WithHandler:
		if number, _, _, _, ok := parse.IPv6(pkt); ok && number == header.ICMPv6ProtocolNumber && parse.ICMPv6(pkt) {
			pkt.TransportProtocolNumber = number
			_ = h.SendRejectionError(pkt, stack.RejectIPv6WithICMPAdminProhibited, false) // on error, the packet is dropped silently
		}
	}
}

// A judgement says what to do with a packet from the machine.
type judgement string

const (
	pass   judgement = "pass"
	drop   judgement = "drop"
	refuse judgement = "refuse"
)

// judgeV4 judges an IPv4 header of at least 20 bytes.
func judgeV4(h []byte) judgement {
	switch {
	case [4]byte(h[12:16]) != MachineV4.As4():
		return drop
	case h[9] == uint8(header.ICMPv4ProtocolNumber) && [4]byte(h[16:20]) != GatewayV4.As4():
		return refuse
	}
	return pass
}

// judgeV6 judges an IPv6 header of at least 40 bytes. Neighbour discovery uses
// link-local and multicast addresses.
func judgeV6(h []byte) judgement {
	from, to := netip.AddrFrom16([16]byte(h[8:24])), netip.AddrFrom16([16]byte(h[24:40]))
	icmp6 := h[6] == uint8(header.ICMPv6ProtocolNumber)
	switch {
	case from != MachineV6 && (!icmp6 || !from.IsLinkLocalUnicast() && !from.IsUnspecified()):
		return drop
	case from == MachineV6 && icmp6 && to != GatewayV6 && !to.IsMulticast() && !to.IsLinkLocalUnicast():
		return refuse
	}
	return pass
}
