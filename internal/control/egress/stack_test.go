package egress

import (
	"net/netip"
	"testing"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
)

// TestFilter says which packets of a machine reach the stack at all.
func TestFilter(t *testing.T) {
	t.Parallel()
	const tcp, icmp, icmp6 = 6, 1, 58
	for _, tt := range []struct {
		from, to string
		protocol uint8
		want     bool
	}{
		{"172.30.0.2", "8.8.8.8", tcp, true},
		{"172.30.0.2", "172.30.0.1", icmp, true},
		{"172.30.0.2", "8.8.8.8", icmp, false}, // the stack would answer in its place
		{"172.30.0.3", "8.8.8.8", tcp, false},
		{"127.0.0.1", "172.30.0.1", tcp, false},
		{"8.8.8.8", "172.30.0.1", tcp, false},
		{"fd00:a10f::2", "2606:2800::1", tcp, true},
		{"fd00:a10f::2", "fd00:a10f::1", icmp6, true},
		{"fd00:a10f::2", "2606:2800::1", icmp6, false},
		{"fd00:a10f::2", "ff02::1:ff00:1", icmp6, true}, // neighbours
		{"fe80::1", "ff02::2", icmp6, true},
		{"::", "ff02::16", icmp6, true},
		{"fe80::1", "2606:2800::1", tcp, false},
		{"fd00:a10f::3", "2606:2800::1", tcp, false},
		{"::1", "fd00:a10f::1", tcp, false},
	} {
		from, to := netip.MustParseAddr(tt.from), netip.MustParseAddr(tt.to)
		got := false
		if from.Is4() {
			h := header.IPv4(make([]byte, header.IPv4MinimumSize))
			h.Encode(&header.IPv4Fields{TotalLength: 20, TTL: 64, Protocol: tt.protocol,
				SrcAddr: tcpip.AddrFromSlice(from.AsSlice()), DstAddr: tcpip.AddrFromSlice(to.AsSlice())})
			got = keepV4(h)
		} else {
			h := header.IPv6(make([]byte, header.IPv6MinimumSize))
			h.Encode(&header.IPv6Fields{TransportProtocol: tcpip.TransportProtocolNumber(tt.protocol), HopLimit: 64,
				SrcAddr: tcpip.AddrFromSlice(from.AsSlice()), DstAddr: tcpip.AddrFromSlice(to.AsSlice())})
			got = keepV6(h)
		}
		if got != tt.want {
			t.Errorf("protocol %d from %s to %s: %v, want %v", tt.protocol, tt.from, tt.to, got, tt.want)
		}
	}
}
