package policy

import (
	"net/netip"
	"testing"
)

// The tables in this file correspond to those about hosts in
// docs/reference/run-modes.md. Each row has a test of its name.

// TestAlwaysBlocked checks that no allow list permits addresses of the host,
// its networks or its cloud.
func TestAlwaysBlocked(t *testing.T) {
	for name, addrs := range map[string][]string{
		"RFC 1918":        {"10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "::ffff:10.0.0.1"},
		"127/8":           {"127.0.0.1", "127.255.255.254", "::ffff:127.0.0.1"},
		"169.254.169.254": {"169.254.169.254", "::ffff:169.254.169.254"},
		"::1":             {"::1"},
		"fe80::/10":       {"fe80::1", "febf::1"},
		"fc00::/7":        {"fc00::1", "fdff::1"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, addr := range addrs {
				a := netip.MustParseAddr(addr)
				for _, n := range []Network{
					{}, {Mode: List, Allow: []string{"0.0.0.0/0", "::/0", "rebound.test"}}, {Mode: List, Allow: []string{netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()).String()}},
				} {
					if v := mustCompile(t, n).Address(a, []string{"rebound.test"}); v.Allowed {
						t.Errorf("%s is reached under %+v: %s", addr, n, v.Rule)
					}
				}
			}
		})
	}
}

// TestDomains checks the meaning of each form of entry in a list.
func TestDomains(t *testing.T) {
	for _, c := range []struct {
		name        string
		allow, deny []string
		yes, no     []string
	}{
		{"exact", []string{"a.test"}, nil, []string{"a.test", "A.TEST."}, []string{"b.a.test", "xa.test", "test"}},
		{"*.x", []string{"*.a.test"}, nil, []string{"a.test", "b.a.test", "c.b.a.test"}, []string{"xa.test", "a.test.evil.test"}},
		{"deny wins", []string{"*.a.test", "b.a.test"}, []string{"b.a.test"}, []string{"a.test"}, []string{"b.a.test"}},
		{"deny wins over all", []string{"*.a.test"}, []string{"*.a.test"}, nil, []string{"a.test", "b.a.test"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := mustCompile(t, Network{Mode: List, Allow: c.allow, Deny: c.deny})
			for _, name := range c.yes {
				if !m.Name(name).Allowed {
					t.Errorf("%s is refused", name)
				}
			}
			for _, name := range c.no {
				if m.Name(name).Allowed {
					t.Errorf("%s is allowed", name)
				}
			}
		})
	}
	t.Run("CIDR", func(t *testing.T) {
		m := mustCompile(t, Network{Mode: List, Allow: []string{"93.184.216.0/24"}, Deny: []string{"93.184.216.8/29"}})
		for addr, want := range map[string]bool{"93.184.216.1": true, "93.184.217.1": false, "93.184.216.9": false} {
			if got := m.Address(netip.MustParseAddr(addr), nil).Allowed; got != want {
				t.Errorf("%s: %v", addr, got)
			}
		}
	})
}
