package web

import (
	"fmt"
	"net/netip"
)

// reserved are the ranges of addresses that are no place of the public
// internet, beside those that netip knows by a name.
var reserved = prefixes(
	"0.0.0.0/8",       // this network
	"100.64.0.0/10",   // behind a carrier's NAT
	"192.0.0.0/24",    // protocol assignments
	"192.0.2.0/24",    // documentation, as the next two with 113 and 100
	"192.88.99.0/24",  // relays of 6to4
	"198.18.0.0/15",   // benchmarks
	"198.51.100.0/24", // documentation
	"203.0.113.0/24",  // documentation
	"240.0.0.0/4",     // never given out, and broadcast
	"::/96",           // IPv4 in its old form
	"64:ff9b:1::/48",  // NAT64 within a network
	"100::/64",        // discard
	"2001::/23",       // protocol assignments, Teredo among them
	"2001:db8::/32",   // documentation
	"3fff::/20",       // documentation
	"5f00::/16",       // segment routing
	"fec0::/10",       // site-local, as it once was
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

// Public refuses every address that is not a public one: this machine's own,
// those of private networks, of links, of groups, and IPv6 addresses that stand
// for such an IPv4 one.
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
