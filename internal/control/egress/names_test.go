package egress

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"

	"aloft/internal/policy"
)

func TestResolve(t *testing.T) {
	gu := newGuest(t, policy.Network{Mode: policy.List, Allow: []string{"*.good.test", "host.aloft.internal"}, Deny: []string{"bad.good.test"}})
	gu.knows("a.good.test", "93.184.216.34", "2606:2800::1")
	gu.knows("bad.good.test", "93.184.216.35")
	gu.knows("rebound.good.test", "10.0.0.1", "169.254.169.254", "::1", "127.0.0.1")
	gu.knows("half.good.test", "10.0.0.1", "93.184.216.36")
	gu.knows("mapped.good.test", "::ffff:127.0.0.1")
	gu.knows("secret.evil.test", "93.184.216.37")
	for name, want := range map[string]string{
		"a.good.test": "93.184.216.34", "A.GOOD.test": "93.184.216.34", "half.good.test": "93.184.216.36",
		"bad.good.test": "", "rebound.good.test": "", "mapped.good.test": "", "secret.evil.test": "", "none.good.test": "", "host.aloft.internal": "",
	} {
		addr, err := gu.resolve(name)
		if want == "" && err == nil || want != "" && (err != nil || addr.String() != want) {
			t.Errorf("%s is %v, %v; want %q", name, addr, err, want)
		}
		if missing, ok := errors.AsType[*net.DNSError](err); err != nil && (!ok || missing.IsTimeout || missing.IsTemporary) {
			t.Errorf("%s: %v, which programs try again", name, err)
		}
	}
	gu.await(func(c policy.Connection) bool {
		return c.Network == "dns" && c.Domain == "bad.good.test" && c.Rule == "deny bad.good.test"
	})
	if got := gu.g.names.lookup(netip.MustParseAddr("::ffff:93.184.216.34")); len(got) != 1 || got[0] != "a.good.test" {
		t.Errorf("the address has the names %v", got)
	}
	if got := gu.g.names.lookup(netip.MustParseAddr("10.0.0.1")); got != nil {
		t.Errorf("a blocked address has the names %v", got)
	}
}

// ask sends one query and returns the reply.
func ask(t *testing.T, gu *guest, name string, kind dnsmessage.Type, edns bool) (dnsmessage.Header, []dnsmessage.Resource, []dnsmessage.Resource) {
	t.Helper()
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: 7, RecursionDesired: true})
	_ = b.StartQuestions()
	_ = b.Question(dnsmessage.Question{Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET})
	if edns {
		_ = b.StartAdditionals()
		var h dnsmessage.ResourceHeader
		_ = h.SetEDNS0(1232, 0, false)
		_ = b.OPTResource(h, dnsmessage.OPTResource{})
	}
	msg, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	// The gateway also answers queries to any other DNS server.
	conn, err := gonet.DialUDP(gu.stack, nil, &tcpip.FullAddress{NIC: nicID, Addr: tcpip.AddrFromSlice([]byte{8, 8, 8, 8}), Port: dnsPort}, ipv4.ProtocolNumber)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))
	if _, err := conn.Write(msg); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	n, err := conn.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	var m dnsmessage.Message
	if err := m.Unpack(buf[:n]); err != nil {
		t.Fatal(err)
	}
	return m.Header, m.Answers, m.Additionals
}

// The gateway reveals neither that names of a private network exist nor which
// rule refuses them.
func TestPrivateNamesAreNotTold(t *testing.T) {
	gu := newGuest(t, policy.Network{Mode: policy.AllowAll, Deny: []string{"secret-project.test"}})
	gu.knows("four.corp.test", "10.1.2.3")
	gu.knows("six.corp.test", "fd00::1")
	for _, kind := range []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeAAAA} {
		want, _, wantMore := ask(t, gu, "none.corp.test.", kind, true)
		for _, name := range []string{"four.corp.test.", "six.corp.test."} {
			h, answers, more := ask(t, gu, name, kind, true)
			if h != want || len(answers) > 0 || !reflect.DeepEqual(more, wantMore) {
				t.Errorf("%s %s: %+v %+v, but a name that does not exist: %+v %+v", name, kind, h, more, want, wantMore)
			}
		}
	}
	if _, _, more := ask(t, gu, "x.secret-project.test.", dnsmessage.TypeA, true); strings.Contains(fmt.Sprintf("%+v", more), "secret-project") {
		t.Errorf("the rule is told: %+v", more)
	}
}

func TestAnswers(t *testing.T) {
	gu := newGuest(t, policy.Network{Mode: policy.List, Allow: []string{"good.test", "six.test"}})
	gu.knows("good.test", "93.184.216.34")
	gu.knows("six.test", "2606:2800::1")
	var many []string
	for i := range 60 {
		many = append(many, fmt.Sprintf("93.184.217.%d", i))
	}
	gu.knows("many.good.test", many...)
	h, answers, _ := ask(t, gu, "good.test.", dnsmessage.TypeA, false)
	if h.RCode != 0 || len(answers) != 1 || answers[0].Header.TTL != 60 || !h.RecursionAvailable || h.ID != 7 {
		t.Errorf("A: %+v %+v", h, answers)
	}
	if h, answers, _ := ask(t, gu, "good.test.", dnsmessage.TypeAAAA, false); h.RCode != 0 || len(answers) != 0 {
		t.Errorf("AAAA of a name that has only A: %+v %+v", h, answers)
	}
	if h, answers, _ := ask(t, gu, "six.test.", dnsmessage.TypeAAAA, false); h.RCode != 0 || len(answers) != 1 {
		t.Errorf("AAAA: %+v %+v", h, answers)
	}
	if h, _, _ := ask(t, gu, "good.test.", dnsmessage.TypeTXT, false); h.RCode != 0 {
		t.Errorf("TXT: %+v", h)
	}
	if h, _, _ := ask(t, gu, "gone.test.", dnsmessage.TypeA, false); h.RCode != dnsmessage.RCodeNameError {
		t.Errorf("refused: %+v", h)
	}
	h, _, more := ask(t, gu, "refused.test.", dnsmessage.TypeA, true)
	if h.RCode != dnsmessage.RCodeNameError || len(more) != 1 {
		t.Fatalf("refused: %+v %+v", h, more)
	}
	opt := more[0].Body.(*dnsmessage.OPTResource)
	if len(opt.Options) != 1 || opt.Options[0].Code != optionReason || string(opt.Options[0].Data[2:]) != "refused by the machine's network policy" {
		t.Errorf("the reason is %+v", opt)
	}
	if err := gu.g.SetPolicy(policy.Network{}); err != nil {
		t.Fatal(err)
	}
	if h, answers, _ := ask(t, gu, "many.good.test.", dnsmessage.TypeA, false); !h.Truncated || len(answers) != 0 {
		t.Errorf("a long answer: %+v, %d answers", h, len(answers))
	}
	if _, err := gu.resolve("many.good.test"); err != nil { // the resolver retries over TCP
		t.Error(err)
	}
}

// TestNamesInConnections checks which host names a client may send on a
// connection to an address.
func TestNamesInConnections(t *testing.T) {
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "web of "+r.Host) }))
	web.Config.ErrorLog = log.New(io.Discard, "", 0)
	web.StartTLS()
	t.Cleanup(web.Close)
	plain := httptest.NewServer(web.Config.Handler)
	t.Cleanup(plain.Close)
	port := func(s *httptest.Server) uint16 { return s.Listener.Addr().(*net.TCPAddr).AddrPort().Port() }
	greeter := serve(t, func(c *net.TCPConn) { // the server speaks first
		_, _ = io.WriteString(c, "220 ready\r\n")
		echo(c)
	})
	n := loopback(policy.List, "*.good.test")
	gu := newGuest(t, n)
	gu.knows("a.good.test", "127.0.0.1")
	gu.knows("b.good.test", "127.0.0.1")
	gu.knows("c.good.test", "93.184.216.34")
	if conn, err := gu.dial(netip.AddrPortFrom(GatewayV4, port(plain))); err == nil {
		_ = conn.Close()
		t.Error("an address without a name was reached")
	}
	for _, name := range []string{"a.good.test", "b.good.test", "c.good.test"} {
		if _, err := gu.resolve(name); err != nil {
			t.Fatal(err)
		}
	}
	over := func(request string) (string, error) {
		conn, err := gu.dial(netip.AddrPortFrom(GatewayV4, port(plain)))
		if err != nil {
			return "", err
		}
		defer func() { _ = conn.Close() }()
		_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))
		for _, part := range strings.SplitAfter(request, "|") { // send each part as a separate packet
			if _, err := io.WriteString(conn, strings.TrimSuffix(part, "|")); err != nil {
				return "", err
			}
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return "", err
		}
		all, err := io.ReadAll(resp.Body)
		return string(all), err
	}
	for request, want := range map[string]string{
		"GET / HTTP/1.1\r\nHost: a.good.test\r\nConnection: close\r\n\r\n":                    "web of a.good.test",
		"GE|T / HT|TP/1.1\r\nHo|st: b.good.test\r\nConnection: close\r|\n\r|\n":               "web of b.good.test",
		"GET / HTTP/1.1\r\nHost: A.GOOD.test.:80\r\nConnection: close\r\n\r\n":                "web of A.GOOD.test.:80",
		"GET http://a.good.test/x HTTP/1.1\r\nHost: a.good.test\r\nConnection: close\r\n\r\n": "web of a.good.test",
		"GET / HTTP/1.1\r\nHost: c.good.test\r\n\r\n":                                         "", // the name did not resolve to this address
		"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n":                                           "",
		"GET / HTTP/1.1\r\nHost: a.good.test\r\nHost: evil.test\r\n\r\n":                      "",
		"GET / HTTP/1.1\r\nHost : evil.test\r\n\r\n":                                          "",
		"GET / HTTP/1.1\r\nX: y\r\n Host: evil.test\r\nHost: a.good.test\r\n\r\n":             "",
		"GET http://evil.test/ HTTP/1.1\r\nHost: a.good.test\r\n\r\n":                         "",
		"CONNECT evil.test:443 HTTP/1.1\r\nHost: a.good.test\r\n\r\n":                         "",
		"GET / HTTP/1.0\r\n\r\n":                  "",
		"\n\nGET / HTTP/1.1\nHost: evil.test\n\n": "",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n":        "",
		"GET / HTTP/1.1\r\nHost: a.good.test\r\nX: " + strings.Repeat("x", maxFirst) + "\r\n\r\n": "",
	} {
		if got, err := over(request); got != want {
			t.Errorf("%.80q is answered %q, %v; want %q", request, got, err, want)
		}
	}
	gu.await(func(c policy.Connection) bool { return !c.Allowed && strings.Contains(c.Rule, "HTTP names evil.test") })

	secure := func(name string) error {
		conn, err := gu.dial(netip.AddrPortFrom(GatewayV4, port(web)))
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))
		return tls.Client(conn, &tls.Config{ServerName: name, InsecureSkipVerify: true}).HandshakeContext(t.Context())
	}
	for name, want := range map[string]bool{"a.good.test": true, "B.good.test": true, "c.good.test": false, "evil.test": false, "": false, "127.0.0.1": false} {
		if err := secure(name); (err == nil) != want {
			t.Errorf("TLS to %q: %v", name, err)
		}
	}
	gu.await(func(c policy.Connection) bool { return !c.Allowed && strings.Contains(c.Rule, "TLS names evil.test") })
	gu.await(func(c policy.Connection) bool {
		return !c.Allowed && strings.Contains(c.Rule, "TLS without a server name")
	})

	conn, err := gu.dial(greeter)
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || line != "220 ready\r\n" {
		t.Errorf("a server that speaks first says %q, %v", line, err)
	}
	if got, err := exchange(conn, "EHLO x\r\n"); err != nil || got != "EHLO x\r\n" {
		t.Errorf("and then %q, %v", got, err)
	}
	_ = conn.Close()

	// A rule with an address range allows connections that name no host, and
	// connections to hosts that are not denied.
	n.Allow, n.Deny = append(n.Allow, "127.0.0.1"), []string{"worse.test"}
	if err := gu.g.SetPolicy(n); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"evil.test": true, "": true, "worse.test": false} {
		if err := secure(name); (err == nil) != want {
			t.Errorf("TLS to %q where the address is allowed: %v", name, err)
		}
	}
	// Mode "all" allows the same.
	if err := gu.g.SetPolicy(policy.Network{Deny: n.Deny, Open: n.Open}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"evil.test": true, "": true, "worse.test": false} {
		if err := secure(name); (err == nil) != want {
			t.Errorf("TLS to %q in mode allow_all: %v", name, err)
		}
	}
}

func TestNamesAreBounded(t *testing.T) {
	t.Parallel()
	n := newNames()
	addr := netip.MustParseAddr("192.0.2.1")
	for i := range 10 * maxNamesPerAddr {
		n.learn(fmt.Sprintf("n%d.test", i), []netip.Addr{addr})
	}
	if got := n.lookup(addr); len(got) != maxNamesPerAddr || got[0] != fmt.Sprintf("n%d.test", 10*maxNamesPerAddr-1) {
		t.Errorf("%d names, first %q", len(got), got[0])
	}
	for i := range 3 * maxAddresses {
		n.learn("x.test", []netip.Addr{netip.AddrFrom4([4]byte{192, byte(i >> 16), byte(i >> 8), byte(i)})})
	}
	if len(n.all) > maxAddresses {
		t.Errorf("%d addresses", len(n.all))
	}
}

func TestLedgerIsBounded(t *testing.T) {
	t.Parallel()
	l := newLedger(nil)
	for range 5 * maxRecords {
		l.add(newRecord("tcp", netip.AddrPort{}, nil, policy.Verdict{}))
	}
	got, _ := l.after(0, 10*maxRecords)
	if len(got) != maxRecords || got[len(got)-1].Seq != 5*maxRecords || len(l.closed) >= 2*maxRecords {
		t.Errorf("%d records, the last %d", len(got), got[len(got)-1].Seq)
	}
	if got, _ := l.after(5*maxRecords-3, 2); len(got) != 2 || got[0].Seq != 5*maxRecords-2 {
		t.Errorf("%+v", got)
	}
}
