package policy

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func mustCompile(t *testing.T, n Network) *Matcher {
	t.Helper()
	m, err := n.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestName(t *testing.T) {
	t.Parallel()
	list := Network{Mode: List, Allow: []string{"example.com", "*.npmjs.org", "bücher.example"}, Deny: []string{"evil.npmjs.org", "*.bad.npmjs.org"}}
	for _, tt := range []struct {
		policy Network
		name   string
		want   Verdict
	}{
		{Network{}, "any.test", Verdict{true, "mode allow_all"}},
		{Network{Mode: None, Allow: []string{"any.test"}}, "any.test", Verdict{false, "mode none"}},
		{list, "example.com", Verdict{true, "allow example.com"}},
		{list, "EXAMPLE.com.", Verdict{true, "allow example.com"}},
		{list, "www.example.com", Verdict{false, "mode list"}},
		{list, "notexample.com", Verdict{false, "mode list"}},
		{list, "npmjs.org", Verdict{true, "allow *.npmjs.org"}},
		{list, "packages.npmjs.org", Verdict{true, "allow *.npmjs.org"}},
		{list, "a.b.npmjs.org", Verdict{true, "allow *.npmjs.org"}},
		{list, "evilnpmjs.org", Verdict{false, "mode list"}},
		{list, "npmjs.org.evil.test", Verdict{false, "mode list"}},
		{list, "evil.npmjs.org", Verdict{false, "deny evil.npmjs.org"}},
		{list, "x.bad.npmjs.org", Verdict{false, "deny *.bad.npmjs.org"}},
		{list, "xn--bcher-kva.example", Verdict{true, "allow bücher.example"}},
		{list, "BÜCHER.example", Verdict{true, "allow bücher.example"}},
		{list, "127.0.0.1", Verdict{false, "not a domain"}},
		{list, "", Verdict{false, "not a domain"}},
		{list, "a..b", Verdict{false, "not a domain"}},
		{Network{Deny: []string{"x.test"}}, "x.test", Verdict{false, "deny x.test"}},
		{Network{Deny: []string{"x.test"}}, "y.test", Verdict{true, "mode allow_all"}},
	} {
		if got := mustCompile(t, tt.policy).Name(tt.name); got != tt.want {
			t.Errorf("%+v: %s is %+v, want %+v", tt.policy, tt.name, got, tt.want)
		}
	}
}

func TestAddress(t *testing.T) {
	t.Parallel()
	list := Network{Mode: List, Allow: []string{"*.good.test", "93.184.216.0/24", "2606:2800::/32"}, Deny: []string{"bad.good.test", "93.184.216.66"}}
	for _, tt := range []struct {
		policy Network
		addr   string
		names  []string
		want   Verdict
	}{
		{Network{}, "8.8.8.8", nil, Verdict{true, "mode allow_all"}},
		{Network{}, "127.0.0.1", []string{"rebound.test"}, Verdict{false, "always blocked 127.0.0.0/8"}},
		{Network{}, "168.63.129.16", nil, Verdict{false, "always blocked 168.63.129.16/32"}},
		{Network{}, "192.88.99.1", nil, Verdict{false, "always blocked 192.88.99.0/24"}},
		{Network{}, "::ffff:0:127.0.0.1", nil, Verdict{false, "always blocked ::ffff:0:0:0/96"}},
		{Network{}, "::ffff:0:a9fe:a9fe", nil, Verdict{false, "always blocked ::ffff:0:0:0/96"}},
		{Network{}, "169.254.169.254", nil, Verdict{false, "always blocked 169.254.0.0/16"}},
		{Network{}, "::ffff:169.254.169.254", nil, Verdict{false, "always blocked 169.254.0.0/16"}},
		{Network{}, "::1", nil, Verdict{false, "always blocked ::/96"}},
		{Network{}, "fe80::1", nil, Verdict{false, "always blocked fe80::/10"}},
		{Network{}, "fe80::1%eth0", nil, Verdict{false, "always blocked fe80::/10"}},
		{Network{}, "fd12::1", nil, Verdict{false, "always blocked fc00::/7"}},
		{Network{}, "64:ff9b::7f00:1", nil, Verdict{false, "always blocked 64:ff9b::/96"}},
		{Network{}, "2002:7f00:1::", nil, Verdict{false, "always blocked 2002::/16"}},
		{Network{}, "0.0.0.0", nil, Verdict{false, "always blocked 0.0.0.0/8"}},
		{Network{}, "255.255.255.255", nil, Verdict{false, "always blocked 240.0.0.0/4"}},
		{Network{}, "224.0.0.251", nil, Verdict{false, "always blocked 224.0.0.0/4"}},
		{Network{}, "100.64.0.1", nil, Verdict{false, "always blocked 100.64.0.0/10"}},
		{Network{Allow: []string{"10.0.0.0/8"}}, "10.1.2.3", nil, Verdict{false, "always blocked 10.0.0.0/8"}},
		{Network{Open: []string{"127.0.0.1/32"}}, "127.0.0.1", nil, Verdict{true, "mode allow_all"}},
		{Network{Open: []string{"127.0.0.1"}}, "::ffff:127.0.0.1", nil, Verdict{true, "mode allow_all"}},
		{Network{Open: []string{"127.0.0.1/32"}}, "127.0.0.2", nil, Verdict{false, "always blocked 127.0.0.0/8"}},
		{Network{Mode: List, Open: []string{"127.0.0.1/32"}}, "127.0.0.1", nil, Verdict{false, "mode list"}},
		{Network{Mode: None, Open: []string{"127.0.0.1/32"}}, "127.0.0.1", nil, Verdict{false, "mode none"}},
		{list, "8.8.8.8", nil, Verdict{false, "mode list"}},
		{list, "8.8.8.8", []string{"dns.good.test"}, Verdict{true, "allow *.good.test"}},
		{list, "8.8.8.8", []string{"dns.good.test", "bad.good.test"}, Verdict{false, "deny bad.good.test"}},
		{list, "8.8.8.8", []string{"other.test"}, Verdict{false, "mode list"}},
		{list, "93.184.216.34", nil, Verdict{true, "allow 93.184.216.0/24"}},
		{list, "93.184.216.66", []string{"dns.good.test"}, Verdict{false, "deny 93.184.216.66"}},
		{list, "::ffff:93.184.216.66", nil, Verdict{false, "deny 93.184.216.66"}},
		{list, "2606:2800::5", nil, Verdict{true, "allow 2606:2800::/32"}},
	} {
		if got := mustCompile(t, tt.policy).Address(netip.MustParseAddr(tt.addr), tt.names); got != tt.want {
			t.Errorf("%+v: %s %v is %+v, want %+v", tt.policy, tt.addr, tt.names, got, tt.want)
		}
	}
	if v := mustCompile(t, Network{}).Address(netip.Addr{}, nil); v.Allowed {
		t.Error("no address is allowed")
	}
}

func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	for _, n := range []Network{
		{Mode: "some"}, {Allow: []string{""}}, {Deny: []string{"*."}}, {Allow: []string{"a b"}}, {Allow: []string{"*.*.x"}},
		{Allow: []string{"10.0.0.0/33"}}, {Open: []string{"localhost"}}, {Allow: []string{"https://x.test"}}, {Allow: []string{"::ffff:0:0/90"}},
		{Allow: []string{"127.1"}}, {Allow: []string{"0x7f000001"}},
	} {
		if _, err := n.Compile(); err == nil {
			t.Errorf("%+v compiles", n)
		}
	}
}

// TestMoreRestrictionNeverAllowsMore draws policies and queries, and adds a
// restriction. The result must not allow more.
func TestMoreRestrictionNeverAllowsMore(t *testing.T) {
	t.Parallel()
	domain := rapid.SampledFrom([]string{"a.test", "b.a.test", "c.b.a.test", "x.test", "test"})
	addr := rapid.SampledFrom([]string{"8.8.8.8", "8.8.4.4", "127.0.0.1", "10.0.0.1", "::1", "2606:2800::1"})
	entry := rapid.OneOf(domain, rapid.Map(domain, func(d string) string { return "*." + d }), addr,
		rapid.SampledFrom([]string{"8.0.0.0/8", "8.8.0.0/16", "2606:2800::/32", "0.0.0.0/0", "::/0"}))
	opened := rapid.SampledFrom([]string{"127.0.0.1/32", "10.0.0.0/8", "::1/128"})
	modes := []Mode{AllowAll, List, None}
	rapid.Check(t, func(t *rapid.T) {
		wide := Network{
			Mode:  rapid.SampledFrom(modes).Draw(t, "mode"),
			Allow: rapid.SliceOfN(entry, 0, 4).Draw(t, "allow"),
			Deny:  rapid.SliceOfN(entry, 0, 4).Draw(t, "deny"),
			Open:  rapid.SliceOfN(opened, 0, 2).Draw(t, "open"),
		}
		narrow := Network{Mode: wide.Mode, Allow: slices.Clone(wide.Allow), Deny: slices.Clone(wide.Deny), Open: slices.Clone(wide.Open)}
		switch how := rapid.IntRange(0, 3).Draw(t, "how"); {
		case how == 0:
			narrow.Deny = append(narrow.Deny, entry.Draw(t, "denied"))
		case how == 1 && len(narrow.Allow) > 0:
			narrow.Allow = narrow.Allow[1:]
		case how == 2 && len(narrow.Open) > 0:
			narrow.Open = narrow.Open[1:]
		default:
			narrow.Mode = modes[min(slices.Index(modes, wide.Mode)+1, 2)]
		}
		w, err := wide.Compile()
		if err != nil {
			t.Fatal(err)
		}
		n, err := narrow.Compile()
		if err != nil {
			t.Fatal(err)
		}
		name := domain.Draw(t, "name")
		if n.Name(name).Allowed && !w.Name(name).Allowed {
			t.Fatalf("%+v allows %s, %+v does not", narrow, name, wide)
		}
		ip := netip.MustParseAddr(addr.Draw(t, "addr"))
		names := rapid.SliceOfN(domain, 0, 3).Draw(t, "names")
		if n.Address(ip, names).Allowed && !w.Address(ip, names).Allowed {
			t.Fatalf("%+v allows %s %v, %+v does not", narrow, ip, names, wide)
		}
	})
}

func FuzzCanonicalName(f *testing.F) {
	for _, s := range []string{"example.com", "EXAMPLE.com.", "bücher.example", "127.0.0.1", "a..b", "1.0x7f", "ｅxample。com", "xn--", "_http._tcp.x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		name, err := CanonicalName(s)
		if err != nil {
			return
		}
		if again, err := CanonicalName(name); err != nil || again != name {
			t.Errorf("%q is %q, and that is %q, %v", s, name, again, err)
		}
		if name != strings.ToLower(name) || strings.HasSuffix(name, ".") || !isASCII(name) || len(name) > 253 {
			t.Errorf("%q is %q", s, name)
		}
		if _, err := netip.ParseAddr(name); err == nil {
			t.Errorf("%q is the address %q", s, name)
		}
		m, err := (Network{Mode: List, Deny: []string{name}, Allow: []string{"*." + name}}).Compile()
		if err != nil {
			t.Fatal(err)
		}
		if m.Name(s).Allowed {
			t.Errorf("%q is denied and allowed", s)
		}
	})
}
