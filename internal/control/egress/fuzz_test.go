package egress

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/channel"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"aloft/internal/policy"
)

// hello returns a TLS client hello.
func hello(f *testing.F, name string) []byte {
	f.Helper()
	a, b := net.Pipe()
	go func() {
		c := tls.Client(a, &tls.Config{ServerName: name, InsecureSkipVerify: true})
		_ = a.SetDeadline(time.Now().Add(2 * time.Minute))
		_ = c.Handshake()
		_ = a.Close()
	}()
	buf := make([]byte, 16<<10)
	n, err := b.Read(buf)
	if err != nil {
		f.Fatal(err)
	}
	_ = b.Close()
	return buf[:n]
}

// FuzzClientHello checks that the reader of client hellos and request headers
// keeps every byte, however the bytes are split, and never returns two names.
func FuzzClientHello(f *testing.F) {
	f.Add(hello(f, "a.test"))
	f.Add(hello(f, ""))
	f.Add([]byte("GET / HTTP/1.1\r\nHost: a.test\r\n\r\nbody"))
	f.Add([]byte("\r\n\r\nGET http://b.test/ HTTP/1.1\nhost: a.test\n\n"))
	f.Add([]byte("SSH-2.0-OpenSSH\r\n"))
	f.Add([]byte{22, 3, 1, 0, 1, 1})
	m, err := policy.Network{Mode: policy.List, Allow: []string{"a.test"}}.Compile()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		read := func(r io.Reader) ([]byte, clientHello, error) {
			s := &source{r: r}
			g, err := readClientHello(s)
			return s.buf, g, err
		}
		first, g, err := read(bytes.NewReader(said))
		if !bytes.HasPrefix(said, first) {
			t.Errorf("read %q of %q", first, said)
		}
		if len(first) > maxFirst {
			t.Errorf("read %d bytes", len(first))
		}
		slow, g2, err2 := read(iotest.OneByteReader(bytes.NewReader(said)))
		if (err == nil) != (err2 == nil) || err == nil && g != g2 || !bytes.HasPrefix(said, slow) {
			t.Errorf("at once %+v, %v; by bytes %+v, %v", g, err, g2, err2)
		}
		if err == nil && g.judge(m, []string{"a.test"}) == nil && g.protocol != "" {
			if name, err := policy.CanonicalName(g.host); err != nil || name != "a.test" {
				t.Errorf("%q passes", g.host)
			}
		}
		if g.protocol == "HTTP" && err == nil && strings.ContainsAny(g.host, "\r\n") {
			t.Errorf("host %q", g.host)
		}
	})
}

// FuzzFollow checks that Go's HTTP server never finds, in the forwarded bytes,
// a request for a refused host.
func FuzzFollow(f *testing.F) {
	for _, said := range []string{
		"GET / HTTP/1.1\r\nHost: a.test\r\n\r\nGET / HTTP/1.1\r\nHost: b.test\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\nHost: b.test\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nT: u\r\n\r\nGET / HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: b.test\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a.test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nGET / HTTP/1.1\r\nHost: b.test\r\n\r\n",
		"CONNECT a.test:80 HTTP/1.1\r\nHost: a.test:80\r\n\r\nGET / HTTP/1.1\r\nHost: b.test\r\n\r\n",
		"\r\nGET / HTTP/1.0\r\nHost: a.test\r\n\r\nx",
		"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\nGET / HTTP/1.1\r\n\r\n",
	} {
		f.Add([]byte(said))
	}
	m, err := policy.Network{Mode: policy.List, Allow: []string{"a.test"}}.Compile()
	if err != nil {
		f.Fatal(err)
	}
	run := func(r io.Reader) (passed []byte, refused bool, hosts []string) {
		answers := newAnswerer(strings.NewReader("HTTP/1.1 200 OK\r\n"))
		_, _ = io.ReadAll(answers) // reading a string cannot fail
		var out bytes.Buffer
		protocol := ""
		rule, _ := follow(&source{r: r}, &out, answers, func(g clientHello) error {
			protocol = g.protocol
			return g.judge(m, []string{"a.test"})
		})
		if rule == nil {
			_, _ = io.Copy(&out, r) // the rest is forwarded unjudged; reading a string cannot fail
		}
		if protocol == "" || protocol == "TLS" {
			return out.Bytes(), rule != nil, nil // not HTTP; the server rejects it too
		}
		in := bufio.NewReader(bytes.NewReader(out.Bytes()))
		for {
			req, err := http.ReadRequest(in)
			if err != nil {
				return out.Bytes(), rule != nil, hosts
			}
			hosts = append(hosts, hostOnly(req.Host))
			if _, err := io.Copy(io.Discard, req.Body); err != nil || req.Method == http.MethodConnect {
				return out.Bytes(), rule != nil, hosts
			}
		}
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		passed, refused, hosts := run(bytes.NewReader(said))
		if !bytes.HasPrefix(said, passed) {
			t.Errorf("%q is passed on as %q", said, passed)
		}
		for _, host := range hosts {
			if name, err := policy.CanonicalName(host); err != nil || name != "a.test" {
				t.Errorf("%q lets a request for %q pass", said, host)
			}
		}
		slow, refusedSlow, _ := run(iotest.OneByteReader(bytes.NewReader(said)))
		if refused != refusedSlow || !refused && !bytes.Equal(passed, slow) {
			t.Errorf("at once %q, %v; by bytes %q, %v", passed, refused, slow, refusedSlow)
		}
	})
}

func FuzzQuery(f *testing.F) {
	for _, name := range []string{"a.test.", "x.y.", "."} {
		b := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: 1, RecursionDesired: true})
		_ = b.StartQuestions()
		_ = b.Question(dnsmessage.Question{Name: dnsmessage.MustNewName(name), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET})
		msg, err := b.Finish()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(msg)
	}
	f.Fuzz(func(t *testing.T, msg []byte) {
		q, ok := parseQuery(msg)
		if !ok {
			return
		}
		if q.most < plainAnswer || q.most > mostAnswer {
			t.Errorf("an answer of %d bytes", q.most)
		}
		reply := build(q, answer{code: dnsmessage.RCodeNameError, refused: true})
		if reply == nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(reply); err != nil {
			t.Errorf("the reply cannot be read: %v", err)
		}
		if m.ID != q.header.ID || !m.Response {
			t.Errorf("%+v answers %+v", m.Header, q.header)
		}
	})
}

// FuzzPackets sends arbitrary packets to a gateway's stack, as a machine with
// raw sockets can.
func FuzzPackets(f *testing.F) {
	v4 := make([]byte, 20, 40)
	header.IPv4(v4).Encode(&header.IPv4Fields{TotalLength: 40, TTL: 64, Protocol: 6,
		SrcAddr: tcpip.AddrFromSlice(MachineV4.AsSlice()), DstAddr: tcpip.AddrFromSlice([]byte{10, 0, 0, 1})})
	syn := make([]byte, 20)
	header.TCP(syn).Encode(&header.TCPFields{SrcPort: 1, DstPort: 80, DataOffset: 20, Flags: header.TCPFlagSyn, WindowSize: 1000})
	f.Add(append(v4, syn...), true)
	f.Add([]byte{0x45}, true)
	f.Add(bytes.Repeat([]byte{0x60}, 60), false)
	link := channel.New(64, MTU, linkAddress)
	g, err := newGateway(Config{Policy: policy.Network{Mode: policy.None}})
	if err != nil {
		f.Fatal(err)
	}
	if err := g.startStack(link); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(_ *testing.T, packet []byte, four bool) {
		pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(packet)})
		defer pkt.DecRef()
		proto := header.IPv6ProtocolNumber
		if four {
			proto = header.IPv4ProtocolNumber
		}
		link.InjectInbound(proto, pkt)
		for p := link.Read(); p != nil; p = link.Read() {
			p.DecRef()
		}
	})
}
