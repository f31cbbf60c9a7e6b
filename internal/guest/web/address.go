package web

import (
	"fmt"
	"net/netip"
)

// reserved are address ranges that are not on the public internet, in addition
// to those that netip has methods for.
var reserved = prefixes(
	"0.0.0.0/8",       // this network
	"100.64.0.0/10",   // behind a carrier's NAT
	"192.0.0.0/24",    // protocol assignments
	"192.0.2.0/24",    // documentation
	"192.88.99.0/24",  // relays of 6to4
	"198.18.0.0/15",   // benchmarks
	"198.51.100.0/24", // documentation
	"203.0.113.0/24",  // documentation
	"240.0.0.0/4",     // reserved for future use, and broadcast
	"::/96",           // IPv4-compatible addresses, deprecated
	"64:ff9b:1::/48",  // NAT64 within a network
	"100::/64",        // discard
	"2001::/23",       // protocol assignments, Teredo among them
	"2001:db8::/32",   // documentation
	"3fff::/20",       // documentation
	"5f00::/16",       // segment routing
	"fec0::/10",       // site-local, deprecated
)

func prefixes(all ...string) []netip.Prefix {
	var list []netip.Prefix
	for _, p := range all {
		list = append(list, netip.MustParsePrefix(p))
	}
	return list
}

var (
	nat64  = netip.MustParsePrefix("64:ff9b::/96")
	sixTo4 = netip.MustParsePrefix("2002::/16")
)

// Public returns an error for every address that is not public: loopback,
// private, link-local and multicast addresses, and IPv6 addresses that embed
// such an IPv4 address.
func Public(a netip.Addr) error {
	a = a.WithZone("").Unmap()
	b := a.As16()
	switch {
	case nat64.Contains(a):
		return Public(netip.AddrFrom4([4]byte(b[12:16])))
	case sixTo4.Contains(a):
		return Public(netip.AddrFrom4([4]byte(b[2:6])))
	}
	private := !a.IsValid() || a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified()
	for _, p := range reserved {
		private = private || p.Contains(a)
	}
	if private {
		return fmt.Errorf("%w: %s", errPrivate, a)
	}
	return nil
}
