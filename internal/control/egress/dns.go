package egress

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"

	"aloft/internal/policy"
)

const dnsPort = 53

// Limits of name lookups.
const (
	lookupTimeout = 10 * time.Second
	streamIdle    = 10 * time.Second // idle timeout of lookups over TCP
	flowQueries   = 5 * time.Second  // idle timeout of lookups over UDP to another DNS server's address
	maxQuery      = 4 << 10          // bytes
	maxAnswers    = 64               // addresses in one answer
	plainAnswer   = 512              // maximum answer in bytes for clients without EDNS
	mostAnswer    = 4 << 10          // maximum answer in bytes for clients with EDNS
)

// serveDNS answers lookups on the gateway's own addresses, with one socket
// each.
func (g *Gateway) serveDNS() error {
	for _, at := range []struct {
		addr  netip.Addr
		proto tcpip.NetworkProtocolNumber
	}{{GatewayV4, ipv4.ProtocolNumber}, {GatewayV6, ipv6.ProtocolNumber}} {
		conn, err := gonet.DialUDP(g.stack, &tcpip.FullAddress{
			NIC: nicID, Addr: tcpip.AddrFromSlice(at.addr.AsSlice()), Port: dnsPort,
		}, nil, at.proto)
		if err != nil {
			return err
		}
		g.working.Go(func() { g.answerDatagrams(conn, 0) })
	}
	return nil
}

// answerDatagrams answers lookups over UDP until the connection has been idle
// for that time. If idle is 0, it runs until the gateway is closed. Each lookup
// runs separately, so that slow ones do not block others.
func (g *Gateway) answerDatagrams(conn *gonet.UDPConn, idle time.Duration) {
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(g.ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	buf := make([]byte, maxQuery)
	for {
		if idle > 0 && conn.SetReadDeadline(time.Now().Add(idle)) != nil || g.ctx.Err() != nil {
			return
		}
		n, from, err := conn.ReadFrom(buf)
		if g.ctx.Err() != nil || idle > 0 && err != nil {
			return
		}
		if err != nil {
			continue // the error concerns one datagram only
		}
		q, ok := parseQuery(buf[:n])
		if !ok || !g.takeLookup() {
			continue
		}
		g.working.Go(func() {
			defer g.giveLookup()
			if reply := g.answer(q, true); reply != nil {
				_, _ = conn.WriteTo(reply, from) // if the reply is lost, the client retries
			}
		})
	}
}

// takeLookup acquires a slot for a lookup, because concurrent lookups are
// limited. It returns false if the gateway is closing.
func (g *Gateway) takeLookup() bool {
	select {
	case g.lookups <- struct{}{}:
		return true
	case <-g.ctx.Done():
		return false
	}
}

func (g *Gateway) giveLookup() { <-g.lookups }

// serveStreamDNS answers the lookups on a TCP connection.
func (g *Gateway) serveStreamDNS(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(g.ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	buf := make([]byte, maxQuery)
	for g.ctx.Err() == nil {
		_ = conn.SetDeadline(time.Now().Add(streamIdle))
		if _, err := io.ReadFull(conn, buf[:2]); err != nil {
			return
		}
		n := int(binary.BigEndian.Uint16(buf))
		if n > maxQuery {
			return
		}
		if _, err := io.ReadFull(conn, buf[:n]); err != nil {
			return
		}
		q, ok := parseQuery(buf[:n])
		if !ok || !g.takeLookup() {
			return
		}
		reply := g.answer(q, false)
		g.giveLookup()
		if reply == nil {
			return
		}
		_ = conn.SetDeadline(time.Now().Add(streamIdle))
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...)); err != nil {
			return
		}
	}
}

// A query is one DNS question of a machine.
type query struct {
	header   dnsmessage.Header
	question dnsmessage.Question
	edns     bool
	most     int // largest datagram that the client accepts, in bytes
}

// parseQuery parses a message with a question. ok is false if the message must
// not be answered.
func parseQuery(msg []byte) (q query, ok bool) {
	var p dnsmessage.Parser
	h, err := p.Start(msg)
	if err != nil || h.Response {
		return q, false
	}
	q.header, q.most = h, plainAnswer
	all, err := p.AllQuestions()
	if err != nil || len(all) != 1 {
		return q, false
	}
	q.question = all[0]
	if p.SkipAllAnswers() != nil || p.SkipAllAuthorities() != nil {
		return q, true
	}
	for {
		rh, err := p.AdditionalHeader()
		if err != nil {
			return q, true
		}
		if rh.Type == dnsmessage.TypeOPT {
			q.edns = true
			q.most = min(max(int(rh.Class), plainAnswer), mostAnswer)
		}
		if p.SkipAdditional() != nil {
			return q, true
		}
	}
}

// answer returns the reply to a query. A name that the policy refuses is
// reported as nonexistent, so that programs fail at once and do not retry.
// Clients with EDNS are told that the policy refuses it (RFC 8914), but not
// which rule does. A name with only blocked addresses gets the same answer as a
// nonexistent name, so that a machine cannot list the names of a private
// network.
func (g *Gateway) answer(q query, datagram bool) []byte {
	a := g.resolve(q)
	reply := build(q, a)
	if datagram && len(reply) > q.most {
		a.addrs, a.truncated = nil, true
		reply = build(q, a)
	}
	return reply
}

// An answer is the result of a lookup.
type answer struct {
	code      dnsmessage.RCode
	addrs     []netip.Addr
	refused   bool // refused by the policy, without a lookup
	truncated bool
}

// resolve looks a name up if the policy allows it.
func (g *Gateway) resolve(q query) answer {
	if q.header.OpCode != 0 || q.question.Class != dnsmessage.ClassINET {
		return answer{code: dnsmessage.RCodeNotImplemented}
	}
	name, err := policy.CanonicalName(q.question.Name.String())
	if err != nil {
		return answer{code: dnsmessage.RCodeNameError}
	}
	m := g.policy.Load()
	if v := m.Name(name); !v.Allowed {
		g.ledger.add(newRecord("dns", netip.AddrPort{}, []string{name}, v))
		return answer{code: dnsmessage.RCodeNameError, refused: true}
	}
	if name == hostName {
		a := hostAnswer(m, q.question.Type)
		g.names.learn(name, a.addrs)
		return a
	}
	network := ""
	switch q.question.Type {
	case dnsmessage.TypeA:
		network = "ip4"
	case dnsmessage.TypeAAAA:
		network = "ip6"
	default:
		return answer{} // the name exists but has no records of this type
	}
	ctx, cancel := context.WithTimeout(g.ctx, lookupTimeout)
	defer cancel()
	// The final dot disables the host's search list.
	addrs, err := g.conf.Lookup(ctx, network, name+".")
	if err != nil {
		if lookup, ok := errors.AsType[*net.DNSError](err); ok && lookup.IsNotFound {
			return g.missing(ctx, network, name)
		}
		return answer{code: dnsmessage.RCodeServerFailure}
	}
	if addrs = reachable(m, addrs); len(addrs) == 0 {
		return g.missing(ctx, network, name)
	}
	var a answer
	for _, addr := range addrs[:min(len(addrs), maxAnswers)] {
		if addr.Is4() == (network == "ip4") {
			a.addrs = append(a.addrs, addr)
		}
	}
	g.names.learn(name, a.addrs)
	return a
}

// hostName is the name under which a machine can reach the host's loopback, if
// the operator allows that.
const hostName = "host.aloft.internal"

func hostAnswer(m *policy.Matcher, kind dnsmessage.Type) answer {
	for t, addr := range map[dnsmessage.Type]netip.Addr{dnsmessage.TypeA: loopbackV4, dnsmessage.TypeAAAA: loopbackV6} {
		if _, blocked := m.Blocked(addr); kind == t && !blocked {
			return answer{addrs: []netip.Addr{addr}}
		} else if kind == t {
			return answer{code: dnsmessage.RCodeNameError, refused: true}
		}
	}
	return answer{}
}

// missing returns the answer for a name without a reachable address of the
// requested family. If the name has reachable addresses of the other family,
// the answer is empty; otherwise it says that the name does not exist. After
// the latter, resolvers do not ask for the other family.
func (g *Gateway) missing(ctx context.Context, network, name string) answer {
	other := "ip4"
	if network == other {
		other = "ip6"
	}
	if addrs, err := g.conf.Lookup(ctx, other, name+"."); err == nil && len(reachable(g.policy.Load(), addrs)) > 0 {
		return answer{}
	}
	return answer{code: dnsmessage.RCodeNameError}
}

// reachable returns the addresses that the policy does not block.
func reachable(m *policy.Matcher, addrs []netip.Addr) (out []netip.Addr) {
	for _, addr := range addrs {
		if _, blocked := m.Blocked(addr.Unmap()); !blocked {
			out = append(out, addr.Unmap())
		}
	}
	return out
}

// The EDNS option that carries an extended error, and the code that means
// blocked by policy (RFC 8914).
const (
	optionReason  = 15
	reasonBlocked = 15
)

// build encodes the reply to q.
func build(q query, a answer) []byte {
	h := dnsmessage.Header{
		ID: q.header.ID, Response: true, OpCode: q.header.OpCode, Truncated: a.truncated,
		RecursionDesired: q.header.RecursionDesired, RecursionAvailable: true, RCode: a.code,
	}
	b := dnsmessage.NewBuilder(nil, h)
	b.EnableCompression()
	if b.StartQuestions() != nil || b.Question(q.question) != nil || b.StartAnswers() != nil {
		return nil
	}
	rh := dnsmessage.ResourceHeader{Name: q.question.Name, Class: dnsmessage.ClassINET, TTL: uint32(answerTTL / time.Second)}
	for _, addr := range a.addrs {
		addr = toMachine(addr)
		var err error
		if addr.Is4() {
			err = b.AResource(rh, dnsmessage.AResource{A: addr.As4()})
		} else {
			err = b.AAAAResource(rh, dnsmessage.AAAAResource{AAAA: addr.As16()})
		}
		if err != nil {
			return nil
		}
	}
	if q.edns && b.StartAdditionals() == nil {
		var opt dnsmessage.ResourceHeader
		if opt.SetEDNS0(mostAnswer, a.code, false) != nil {
			return nil
		}
		var body dnsmessage.OPTResource
		if a.refused {
			data := binary.BigEndian.AppendUint16(nil, reasonBlocked)
			body.Options = []dnsmessage.Option{{Code: optionReason, Data: append(data, "refused by the machine's network policy"...)}}
		}
		if b.OPTResource(opt, body) != nil {
			return nil
		}
	}
	reply, err := b.Finish()
	if err != nil {
		return nil
	}
	return reply
}
