package policy

import "net/netip"

// alwaysBlocked are the ranges of the host, its networks, and reserved addresses. They
// include the IPv6 forms of IPv4 addresses (6to4, NAT64, SIIT, Teredo), since a router
// may translate these forms to blocked addresses.
var alwaysBlocked = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("10.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("127.0.0.0/8"),
	netip.MustParsePrefix("168.63.129.16/32"), // Azure's host, which serves the machine's secrets
	netip.MustParsePrefix("169.254.0.0/16"),   // contains the metadata address
	netip.MustParsePrefix("172.16.0.0/12"),
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.88.99.0/24"), // 6to4 relays
	netip.MustParsePrefix("192.168.0.0/16"),
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("224.0.0.0/4"),
	netip.MustParsePrefix("240.0.0.0/4"),     // including the broadcast address
	netip.MustParsePrefix("::/96"),           // unspecified, loopback, IPv4-compatible addresses
	netip.MustParsePrefix("::ffff:0:0:0/96"), // IPv4-translated (SIIT)
	netip.MustParsePrefix("64:ff9b::/96"),
	netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("100::/64"),
	netip.MustParsePrefix("2001::/32"),
	netip.MustParsePrefix("2002::/16"),
	netip.MustParsePrefix("fc00::/7"),
	netip.MustParsePrefix("fe80::/10"),
	netip.MustParsePrefix("fec0::/10"),
	netip.MustParsePrefix("ff00::/8"),
}

// Blocked reports whether addr is always blocked and has not been opened, and returns
// the range that blocks it.
func (m *Matcher) Blocked(addr netip.Addr) (rule string, blocked bool) {
	addr = plain(addr)
	if !addr.IsValid() {
		return "not an address", true
	}
	if m.Opened(addr) {
		return "", false
	}
	for _, p := range alwaysBlocked {
		if p.Contains(addr) {
			return "always blocked " + p.String(), true
		}
	}
	return "", false
}

// Opened reports whether the operator has opened addr.
func (m *Matcher) Opened(addr netip.Addr) bool {
	addr = plain(addr)
	for _, p := range m.open {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// plain returns the address that is reached by connecting to addr.
func plain(addr netip.Addr) netip.Addr { return addr.Unmap().WithZone("") }
