package policy

import (
	"encoding/json"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Values from which the tests draw.
var (
	drawDomain = rapid.SampledFrom([]string{"a.test", "b.a.test", "c.b.a.test", "x.test", "test", "packages.npmjs.org"})
	drawAddr   = rapid.SampledFrom([]string{"8.8.8.8", "8.8.4.4", "127.0.0.1", "10.0.0.1", "::1", "2606:2800::1", "::ffff:8.8.8.8"})
	drawEntry  = rapid.OneOf(drawDomain, rapid.Map(drawDomain, func(d string) string { return "*." + d }),
		rapid.SampledFrom([]string{"8.8.8.8", "8.0.0.0/8", "127.0.0.0/8", "2606:2800::/32", "0.0.0.0/0", "::/0"}))
	drawNetwork = rapid.Custom(func(t *rapid.T) Network {
		return Network{
			Mode:  rapid.SampledFrom([]Mode{"", AllowAll, List, None}).Draw(t, "mode"),
			Allow: rapid.SliceOfN(drawEntry, 0, 4).Draw(t, "allow"),
			Deny:  rapid.SliceOfN(drawEntry, 0, 3).Draw(t, "deny"),
			Open:  rapid.SliceOfN(rapid.SampledFrom([]string{"127.0.0.1/32", "10.0.0.0/8", "::1/128"}), 0, 2).Draw(t, "open"),
		}
	})
)

// TestNarrowIsBoth draws chains of policies and queries. A chain must allow
// exactly what all its parts allow.
func TestNarrowIsBoth(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		parent := drawNetwork.Draw(t, "parent")
		chain := parent
		parts := []Network{parent}
		for range rapid.IntRange(1, 3).Draw(t, "children") {
			child := drawNetwork.Draw(t, "child")
			if rapid.Bool().Draw(t, "environment") {
				mode := rapid.SampledFrom([]string{"", EnvironmentAllowAll, EnvironmentParentPlus, EnvironmentDefaultPlus, EnvironmentSettingsOnly}).Draw(t, "setting")
				var err error
				if child, err = ForEnvironment(mode, child.Allow); err != nil {
					t.Fatal(err)
				}
			}
			chain = Narrow(chain, child)
			child.Open = parent.Open
			parts = append(parts, child)
		}
		// Serialize the chain, as for the egress process.
		data, err := json.Marshal(chain)
		if err != nil {
			t.Fatal(err)
		}
		var read Network
		if err := json.Unmarshal(data, &read); err != nil {
			t.Fatal(err)
		}
		m, err := read.Compile()
		if err != nil {
			t.Fatal(err)
		}
		name, addr := drawDomain.Draw(t, "name"), netip.MustParseAddr(drawAddr.Draw(t, "addr"))
		names := rapid.SliceOfN(drawDomain, 0, 3).Draw(t, "names")
		wantName, wantAddr, wantBy, named := true, true, true, false
		for _, part := range parts {
			p, err := part.Compile()
			if err != nil {
				t.Fatal(err)
			}
			wantName = wantName && p.Name(name).Allowed
			wantAddr = wantAddr && p.Address(addr, names).Allowed
			wantBy = wantBy && p.ByAddress(addr)
			named = named || p.Named()
		}
		if got := m.Name(name); got.Allowed != wantName {
			t.Fatalf("%s: %s is %+v, its parts say %v", data, name, got, wantName)
		}
		if got := m.Address(addr, names); got.Allowed != wantAddr {
			t.Fatalf("%s: %s %v is %+v, its parts say %v", data, addr, names, got, wantAddr)
		}
		if m.ByAddress(addr) != wantBy || m.Named() != named {
			t.Fatalf("%s: by address %v, named %v", data, m.ByAddress(addr), m.Named())
		}
	})
}

func TestForEnvironment(t *testing.T) {
	t.Parallel()
	all := Network{Mode: AllowAll, Deny: []string{"bad.example.com"}}
	list := Network{Mode: List, Allow: []string{"*.example.com", "*.npmjs.org"}}
	for _, tt := range []struct {
		parent Network
		mode   string
		allow  []string
		yes    []string
		no     []string
	}{
		{all, "", nil, []string{"any.test"}, []string{"bad.example.com"}},
		{all, EnvironmentAllowAll, nil, []string{"any.test"}, []string{"bad.example.com"}},
		{all, EnvironmentDefaultPlus, []string{"own.test"}, []string{"packages.npmjs.org", "pages.golang.org", "www.debian.org", "own.test"}, []string{"any.test", "x.own.test"}},
		{all, EnvironmentSettingsOnly, []string{"*.own.test", "bad.example.com"}, []string{"x.own.test"}, []string{"packages.npmjs.org", "bad.example.com"}},
		{all, EnvironmentSettingsOnly, nil, nil, []string{"any.test"}},
		{list, EnvironmentAllowAll, []string{"own.test"}, []string{"www.example.com"}, []string{"own.test"}},
		{list, EnvironmentParentPlus, []string{"own.test"}, []string{"www.example.com", "packages.npmjs.org"}, []string{"own.test"}},
		{list, EnvironmentDefaultPlus, []string{"own.test"}, []string{"packages.npmjs.org"}, []string{"own.test", "www.example.com", "pages.golang.org"}},
		{list, EnvironmentSettingsOnly, []string{"a.example.com", "own.test"}, []string{"a.example.com"}, []string{"b.example.com", "own.test"}},
		{Network{Mode: None}, EnvironmentAllowAll, nil, nil, []string{"any.test"}},
	} {
		child, err := ForEnvironment(tt.mode, tt.allow)
		if err != nil {
			t.Fatal(err)
		}
		m := mustCompile(t, Narrow(tt.parent, child))
		for _, name := range slices.Concat(tt.yes, tt.no) {
			if want := slices.Contains(tt.yes, name); m.Name(name).Allowed != want {
				t.Errorf("%s %v under %+v: %s is %+v", tt.mode, tt.allow, tt.parent, name, m.Name(name))
			}
		}
	}
	for _, wrong := range []struct {
		mode  string
		allow []string
	}{{"open", nil}, {EnvironmentAllowAll, []string{"a b"}}, {EnvironmentSettingsOnly, []string{"https://x.test"}}} {
		if _, err := ForEnvironment(wrong.mode, wrong.allow); err == nil {
			t.Errorf("%+v is taken", wrong)
		}
	}
}
