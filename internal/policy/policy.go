// Package policy decides what a machine, or a command in its sandbox, may access on the
// network. A [Network] is compiled to a [Matcher], whose decisions depend only on its
// arguments. The package does no I/O: its callers (a machine's egress process, the
// sandbox) supply names and addresses and enforce the result.
//
// Rules apply in this order: an address that is always blocked is refused unless the
// operator has opened it; then deny rules; then allow rules; then the mode. Adding to
// Deny, removing from Allow or Open, or choosing a stricter mode never permits more.
package policy

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// A Mode decides about connections that match no rule.
type Mode string

// The modes, from the least to the most restrictive.
const (
	AllowAll Mode = "allow_all" // connections that are not denied
	List     Mode = "list"      // connections that are allowed
	None     Mode = "none"      // no connections
)

// Network is a policy in its written form. Each entry of Allow and Deny is a domain
// ("example.com"), a domain with all subdomains ("*.example.com", which also matches
// example.com), an address, or an address range in CIDR form.
type Network struct {
	Mode  Mode     `json:"mode,omitempty"`
	Allow []string `json:"allow,omitempty"`
	Deny  []string `json:"deny,omitempty"`
	// Open lists always-blocked addresses and ranges that should not be blocked. Only an
	// operator may set it. The other rules still apply to these addresses.
	Open []string `json:"open,omitempty"`
	// Narrower, unless nil, is a second policy that must also allow each connection: see
	// [Narrow]. Its Open is ignored.
	Narrower *Network `json:"narrower,omitempty"`
}

// A Verdict is a policy's decision about one name or connection.
type Verdict struct {
	Allowed bool
	Rule    string // the deciding rule: an entry as written, or the mode
}

// Matcher is a compiled [Network]. It is safe for concurrent use.
type Matcher struct {
	mode        Mode
	allow, deny rules
	open        []netip.Prefix
	narrower    *Matcher // nil if Network has no narrower policy
}

// rules are entries, grouped by kind.
type rules struct {
	exact  map[string]string // entries by canonical domain
	below  map[string]string // entries with *. by canonical parent domain
	ranges []rangeRule
}

type rangeRule struct {
	prefix netip.Prefix
	entry  string
}

// Limits reports whether the policy, or a narrower one in it, refuses more than
// the always-blocked addresses.
func (n Network) Limits() bool {
	if cmp.Or(n.Mode, AllowAll) != AllowAll || len(n.Deny) > 0 {
		return true
	}
	return n.Narrower != nil && n.Narrower.Limits()
}

// Compile validates and compiles a policy. The error names the invalid entry.
func (n Network) Compile() (*Matcher, error) {
	m := &Matcher{mode: cmp.Or(n.Mode, AllowAll)}
	if !slices.Contains([]Mode{AllowAll, List, None}, m.mode) {
		return nil, fmt.Errorf("network mode: invalid value %q: must be allow_all, list or none", n.Mode)
	}
	var err error
	if m.allow, err = compile(n.Allow); err != nil {
		return nil, fmt.Errorf("network allow: %w", err)
	}
	if m.deny, err = compile(n.Deny); err != nil {
		return nil, fmt.Errorf("network deny: %w", err)
	}
	for _, entry := range n.Open {
		p, ok := parseRange(entry)
		if !ok {
			return nil, fmt.Errorf("network open: invalid value %q: use an address or a range such as 127.0.0.1/32", entry)
		}
		m.open = append(m.open, p)
	}
	if n.Narrower == nil {
		return m, nil
	}
	inner := *n.Narrower
	inner.Open = n.Open
	if m.narrower, err = inner.Compile(); err != nil {
		return nil, fmt.Errorf("narrower: %w", err)
	}
	return m, nil
}

func compile(entries []string) (rules, error) {
	r := rules{exact: map[string]string{}, below: map[string]string{}}
	for _, entry := range entries {
		if p, ok := parseRange(entry); ok {
			r.ranges = append(r.ranges, rangeRule{p, entry})
			continue
		}
		domain, below := strings.CutPrefix(entry, "*.")
		name, err := CanonicalName(domain)
		if err != nil {
			return r, fmt.Errorf("%q is not a domain, a *.domain or a range of addresses: %w", entry, err)
		}
		if below {
			r.below[name] = entry
		} else {
			r.exact[name] = entry
		}
	}
	return r, nil
}

// parseRange parses an address or a CIDR range. A range of IPv4-mapped
// addresses becomes the IPv4 range.
func parseRange(entry string) (netip.Prefix, bool) {
	if a, err := netip.ParseAddr(entry); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	p, err := netip.ParsePrefix(entry)
	if err != nil {
		return netip.Prefix{}, false
	}
	if a := p.Addr(); a.Is4In6() {
		if p.Bits() < 96 {
			return netip.Prefix{}, false // a shorter range includes more than the mapped addresses
		}
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	return p.Masked(), true
}

func (r rules) name(name string) (entry string, ok bool) {
	if entry, ok := r.exact[name]; ok {
		return entry, true
	}
	for apex := name; ; {
		if entry, ok := r.below[apex]; ok {
			return entry, true
		}
		var found bool
		if _, apex, found = strings.Cut(apex, "."); !found {
			return "", false
		}
	}
}

func (r rules) addr(addr netip.Addr) (entry string, ok bool) {
	for _, rule := range r.ranges {
		if rule.prefix.Contains(addr) {
			return rule.entry, true
		}
	}
	return "", false
}

// and combines the verdicts of two policies that must both allow. A deny rule takes
// precedence over other refusals.
func (v Verdict) and(w Verdict) Verdict {
	if v.Allowed || !w.Allowed && w.denial() && !v.denial() {
		return w
	}
	return v
}

func (v Verdict) denial() bool { return strings.HasPrefix(v.Rule, "deny ") }

// Name decides whether a domain may be looked up. Invalid names are refused.
func (m *Matcher) Name(domain string) Verdict {
	v := m.name(domain)
	if m.narrower == nil {
		return v
	}
	return v.and(m.narrower.Name(domain))
}

func (m *Matcher) name(domain string) Verdict {
	name, err := CanonicalName(domain)
	if err != nil {
		return Verdict{Rule: "not a domain"}
	}
	if m.mode == None {
		return Verdict{Rule: "mode none"}
	}
	if entry, ok := m.deny.name(name); ok {
		return Verdict{Rule: "deny " + entry}
	}
	if entry, ok := m.allow.name(name); ok {
		return Verdict{Allowed: true, Rule: "allow " + entry}
	}
	return Verdict{Allowed: m.mode == AllowAll, Rule: "mode " + string(m.mode)}
}

// Address decides about a connection to an address to which the given names resolved.
// The connection is allowed if the address is allowed, or if one of the names is allowed
// and none is denied.
func (m *Matcher) Address(addr netip.Addr, names []string) Verdict {
	v := m.address(plain(addr), names)
	if m.narrower == nil {
		return v
	}
	return v.and(m.narrower.Address(addr, names))
}

func (m *Matcher) address(addr netip.Addr, names []string) Verdict {
	if rule, blocked := m.Blocked(addr); blocked {
		return Verdict{Rule: rule}
	}
	if m.mode == None {
		return Verdict{Rule: "mode none"}
	}
	if entry, ok := m.deny.addr(addr); ok {
		return Verdict{Rule: "deny " + entry}
	}
	best := Verdict{}
	for _, domain := range names {
		v := m.name(domain)
		if !v.Allowed && v.denial() {
			return v
		}
		if v.Allowed && !best.Allowed {
			best = v
		}
	}
	if entry, ok := m.allow.addr(addr); ok {
		return Verdict{Allowed: true, Rule: "allow " + entry}
	}
	if best.Allowed {
		return best
	}
	return Verdict{Allowed: m.mode == AllowAll, Rule: "mode " + string(m.mode)}
}

// ByAddress reports whether a rule allows addr itself, independently of names. A
// connection to such an address need not name an allowed domain.
func (m *Matcher) ByAddress(addr netip.Addr) bool {
	v := m.Address(addr, nil)
	return v.Allowed
}

// Mode returns the policy's mode, or the strictest mode if it combines several policies.
func (m *Matcher) Mode() Mode {
	if m.narrower == nil {
		return m.mode
	}
	return stricter(m.mode, m.narrower.Mode())
}

func stricter(a, b Mode) Mode {
	for _, mode := range []Mode{None, List} {
		if a == mode || b == mode {
			return mode
		}
	}
	return AllowAll
}

// Named reports whether the policy has rules about domains. They must be compared with
// the host that a connection names (TLS server name, HTTP host).
func (m *Matcher) Named() bool {
	return m.mode == List || len(m.deny.exact)+len(m.deny.below) > 0 || m.narrower != nil && m.narrower.Named()
}
