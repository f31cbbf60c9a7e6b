package server

import (
	"fmt"
	"net/netip"
)

// trustedProxies reads ranges such as 10.0.0.0/8, and addresses.
func trustedProxies(ranges []string) (out []netip.Prefix, err error) {
	for _, r := range ranges {
		p, err := netip.ParsePrefix(r)
		if addr, notOne := netip.ParseAddr(r); notOne == nil {
			p, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		switch {
		case err != nil:
			return nil, fmt.Errorf("trusted_proxies: invalid value %q: use an address or a range such as 10.0.0.0/8", r)
		case p.Bits() == 0:
			return nil, fmt.Errorf("trusted_proxies: %s trusts everybody: name the addresses of your reverse proxies", r)
		}
		out = append(out, p)
	}
	return out, nil
}
