package egress

import (
	"net/netip"
	"testing"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
)

// TestFilter checks which packets of a machine reach the stack.
func TestFilter(t *testing.T) {
	t.Parallel()
	const tcp, icmp, icmp6 = 6, 1, 58
	for _, tt := range []struct {
		from, to string
		protocol uint8
		want     judgement
	}{
		{"172.30.0.2", "8.8.8.8", tcp, pass},
		{"172.30.0.2", "172.30.0.1", icmp, pass},
		{"172.30.0.2", "8.8.8.8", icmp, refuse}, // the stack would answer in place of that host
		{"172.30.0.3", "8.8.8.8", tcp, drop},
		{"127.0.0.1", "172.30.0.1", tcp, drop},
		{"8.8.8.8", "172.30.0.1", tcp, drop},
		{"fd00:a10f::2", "2606:2800::1", tcp, pass},
		{"fd00:a10f::2", "fd00:a10f::1", icmp6, pass},
		{"fd00:a10f::2", "2606:2800::1", icmp6, refuse},
		{"fd00:a10f::2", "ff02::1:ff00:1", icmp6, pass}, // neighbour discovery
		{"fe80::1", "ff02::2", icmp6, pass},
		{"::", "ff02::16", icmp6, pass},
		{"fe80::1", "2606:2800::1", tcp, drop},
		{"fd00:a10f::3", "2606:2800::1", tcp, drop},
		{"::1", "fd00:a10f::1", tcp, drop},
	} {
		from, to := netip.MustParseAddr(tt.from), netip.MustParseAddr(tt.to)
		var got judgement
		if from.Is4() {
			h := header.IPv4(make([]byte, header.IPv4MinimumSize))
			h.Encode(&header.IPv4Fields{TotalLength: 20, TTL: 64, Protocol: tt.protocol,
				SrcAddr: tcpip.AddrFromSlice(from.AsSlice()), DstAddr: tcpip.AddrFromSlice(to.AsSlice())})
			got = judgeV4(h)
		} else {
			h := header.IPv6(make([]byte, header.IPv6MinimumSize))
			h.Encode(&header.IPv6Fields{TransportProtocol: tcpip.TransportProtocolNumber(tt.protocol), HopLimit: 64,
				SrcAddr: tcpip.AddrFromSlice(from.AsSlice()), DstAddr: tcpip.AddrFromSlice(to.AsSlice())})
			got = judgeV6(h)
		}
		if got != tt.want {
			t.Errorf("protocol %d from %s to %s: %s, want %s", tt.protocol, tt.from, tt.to, got, tt.want)
		}
	}
}
