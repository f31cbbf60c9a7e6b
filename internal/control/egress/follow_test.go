package egress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"aloft/internal/policy"

	"github.com/coder/websocket"
)

// TestEveryRequestIsJudged checks that each request on a connection is judged
// by its own host.
func TestEveryRequestIsJudged(t *testing.T) {
	t.Parallel()
	m, err := policy.Network{Mode: policy.List, Allow: []string{"*.good.test"}}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	const (
		good    = "GET /1 HTTP/1.1\r\nHost: a.good.test\r\n\r\n"
		other   = "GET /2 HTTP/1.1\r\nHost: b.good.test\r\n\r\n"
		evil    = "GET /2 HTTP/1.1\r\nHost: evil.test\r\n\r\n"
		body    = "POST /1 HTTP/1.1\r\nHost: a.good.test\r\nContent-Length: 4\r\n\r\nabcd"
		chunked = "POST /1 HTTP/1.1\r\nHost: a.good.test\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nab\r\n\r\n5;x=\"y\"\r\nabcde\r\n0\r\nT: u\r\n\r\n"
		ws      = "GET /ws HTTP/1.1\r\nHost: a.good.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
		h2c     = "GET /h2 HTTP/1.1\r\nHost: a.good.test\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
		connect = "CONNECT a.good.test:443 HTTP/1.1\r\nHost: a.good.test:443\r\n\r\n"
	)
	for _, tt := range []struct {
		name, said, reply string
		passed            int // bytes forwarded; -1 means all, without a refusal
	}{
		{"one", good, "", -1},
		{"the same again", good + good + good, "", -1},
		{"another that is allowed", good + other, "", -1},
		{"another", good + evil, "", len(good)},
		{"after empty lines", good + "\r\n\n" + evil, "", len(good)},
		{"after a body", body + evil, "", len(body)},
		{"a body that looks like a request", strings.Replace(body, "abcd", "GET ", 1) + good, "", -1},
		{"after chunks", chunked + evil, "", len(chunked)},
		{"after chunks, again", chunked + body + chunked + good, "", -1},
		{"two lengths", strings.Replace(body, "\r\n\r\n", "\r\nContent-Length: 40\r\n\r\n", 1) + evil, "", 0},
		{"the same length twice", strings.Replace(body, "\r\n\r\n", "\r\nContent-Length: 4\r\n\r\n", 1), "", 0},
		{"length and chunks", strings.Replace(chunked, "\r\nTransfer", "\r\nContent-Length: 4\r\nTransfer", 1), "", 0},
		{"another coding", strings.Replace(chunked, "chunked", "gzip, chunked", 1), "", 0},
		{"a coding with a space", strings.Replace(chunked, "Encoding:", "Encoding :", 1), "", 0},
		{"chunks in HTTP/1.0", strings.Replace(chunked, "HTTP/1.1", "HTTP/1.0", 1), "", 0},
		{"a signed length", strings.Replace(body, " 4", " +4", 1), "", 0},
		{"a chunk without its end", strings.Replace(chunked, "ab\r\n\r\n", "ab\r\nxx", 1) + evil, "", strings.Index(chunked, "ab\r\n") + 4},
		{"a chunk's line with a bare line feed", strings.Replace(chunked, "4\r\n", "4\n", 1), "", strings.Index(chunked, "4\r\n")},
		{"a stray carriage return", strings.Replace(good, " HTTP/1.1\r\n", " HTTP/1.1\rHost: evil.test\r\n", 1), "", 0},
		{"garbage", good + "\x00\x01\x02\r\n", "", len(good)},
		{"TLS after HTTP", good + "\x16\x03\x01", "", len(good)},
		{"HTTP/2 after HTTP", good + "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "", len(good)},
		{"WebSocket", ws + "\x81\x85 frames " + evil, "HTTP/1.1 101 Switching Protocols\r\n", -1},
		{"WebSocket that is refused", ws + evil, "HTTP/1.1 200 OK\r\n", len(ws)},
		{"WebSocket that is refused, and goes on", ws + good, "HTTP/1.1 400 Bad Request\r\n", -1},
		{"WebSocket without a reply", ws + evil, "", len(ws)},
		{"WebSocket later", good + ws + "\x81\x85", "HTTP/1.1 101 Switching Protocols\r\n", len(good + ws)},
		{"HTTP/2 by an upgrade", h2c + "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/1.1 101 Switching Protocols\r\n", len(h2c)},
		{"tunnel", connect + good, "HTTP/1.1 200 OK\r\n", -1},
		{"tunnel to another", connect + evil, "HTTP/1.1 200 OK\r\n", len(connect)},
		{"tunnel of what names nothing", connect + "SSH-2.0-x\r\n", "HTTP/1.1 200 OK\r\n", -1},
		{"tunnel that is refused", connect + "SSH-2.0-x\r\n", "HTTP/1.1 403 Forbidden\r\n", len(connect)},
		{"a blank before", " " + evil, "", 0},
		{"other blanks before", "\r\n\x0b\xa0" + evil, "", 0},
		{"another blank", strings.Replace(evil, "GET ", "GET\x0b", 1), "", 0},
		{"a blank of Latin-1", strings.Replace(evil, "GET ", "GET\xa0", 1), "", 0},
		{"two blanks", strings.Replace(good, "GET ", "GET  ", 1) + evil, "", 0},
		{"a blank after", strings.Replace(good, "1.1\r", "1.1 \r", 1) + evil, "", 0},
		{"a method that no server knows", strings.Replace(good, "GET", "G(T", 1) + evil, "", 0},
		{"a long method", strings.Replace(good, "GET", strings.Repeat("A", 40), 1) + evil, "", len(good) + 37},
		{"a method with high characters", strings.Replace(good, "GET", "G\xc3\xa9T", 1) + evil, "", 0},
		{"a version in lower case", strings.Replace(good, "HTTP/", "http/", 1) + evil, "", 0},
		{"a tab in a coding's name", strings.Replace(chunked, "Encoding:", "Encoding\x0b:", 1), "", 0},
		{"a header without a colon", strings.Replace(good, "Host", "Transfer-Encoding\r\nHost", 1), "", 0},
		{"HTTP/2 by the first of two upgrades", strings.Replace(h2c, "h2c\r\n", "h2c\r\nUpgrade: websocket\r\n", 1) + "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/1.1 101 Switching Protocols\r\n", len(h2c) + len("Upgrade: websocket\r\n")},
		{"a name in high characters in the path", strings.Replace(good, "/1", "/\xc3\xa0", 1), "", -1},
		{"SSH", "SSH-2.0-x\r\n" + evil, "", -1},
		{"a line of another protocol", "EHLO a.good.test\r\n", "", -1},
		{"a word of another protocol", strings.Repeat("x", 100), "", -1},
		{"bytes of another protocol", "AMQP\x00\x00\x09\x01", "", -1},
		{"chunk's line too long", strings.Replace(chunked, "5;x", "5;"+strings.Repeat("x", maxChunk), 1), "", strings.Index(chunked, "5;x")},
	} {
		answers := newAnswerer(strings.NewReader(tt.reply))
		if _, err := io.ReadAll(answers); err != nil {
			t.Fatal(err)
		}
		answers.markKnown()
		for _, size := range []int{1, 1 << 20} {
			var out bytes.Buffer
			s := &source{r: io.LimitReader(&pieces{[]byte(tt.said), size}, int64(len(tt.said)))}
			refused, failed := follow(s, &out, answers, func(g clientHello) error { return g.judge(m, []string{"a.good.test", "b.good.test"}) })
			if refused == nil {
				_, _ = io.Copy(&out, s.r) // the rest is forwarded unjudged
			}
			if failed != nil {
				t.Errorf("%s: %v", tt.name, failed)
			}
			if tt.passed < 0 && (refused != nil || out.String() != tt.said) {
				t.Errorf("%s: %v, passed %q", tt.name, refused, out.String())
			}
			if tt.passed >= 0 && (refused == nil || out.Len() != tt.passed) {
				t.Errorf("%s: %v, passed %q", tt.name, refused, out.String())
			}
		}
	}
}

// pieces is a reader that returns a fixed number of bytes per read.
type pieces struct {
	left []byte
	size int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.left) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.size)], p.left)
	p.left = p.left[n:]
	return n, nil
}

// TestKeptAlive sends requests to real servers over one connection through a
// gateway.
func TestKeptAlive(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/ws" {
			ws, err := websocket.Accept(w, r, nil)
			if err != nil {
				return
			}
			kind, data, err := ws.Read(r.Context())
			if err == nil {
				_ = ws.Write(r.Context(), kind, append([]byte("heard "), data...))
			}
			_ = ws.Close(websocket.StatusNormalClosure, "")
			return
		}
		n, _ := io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, r.Host+" "+strings.Repeat("x", int(n%10)))
	}))
	t.Cleanup(web.Close)
	gu := newGuest(t, loopback(policy.List, "*.good.test"))
	gu.knows("a.good.test", "127.0.0.1")
	if _, err := gu.resolve("a.good.test"); err != nil {
		t.Fatal(err)
	}
	to := netip.AddrPortFrom(GatewayV4, web.Listener.Addr().(*net.TCPAddr).AddrPort().Port())
	conn, err := gu.dial(to)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))
	in := bufio.NewReader(conn)
	for i, host := range []string{"a.good.test", "a.good.test", "a.good.test", "evil.test"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+host+"/", io.MultiReader(strings.NewReader(strings.Repeat("y", 100003)))) // sent with chunked encoding
		if err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			req.Body, req.ContentLength = io.NopCloser(strings.NewReader("123")), 3
		}
		err = req.Write(conn)
		var resp *http.Response
		if err == nil {
			resp, err = http.ReadResponse(in, req)
		}
		if host == "evil.test" {
			if err == nil {
				t.Error("the request for another host was answered")
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(resp.Body)
		if err != nil || string(all) != host+" xxx" {
			t.Errorf("request %d is answered %q, %v", i, all, err)
		}
	}
	gu.await(func(c policy.Connection) bool { return !c.Allowed && strings.Contains(c.Rule, "HTTP names evil.test") })

	ws, _, err := websocket.Dial(t.Context(), "ws://a.good.test/ws", &websocket.DialOptions{HTTPClient: &http.Client{Transport: &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return gu.dial(to) },
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := ws.Write(t.Context(), websocket.MessageText, []byte("GET / HTTP/1.1")); err != nil {
		t.Fatal(err)
	}
	if _, heard, err := ws.Read(t.Context()); err != nil || string(heard) != "heard GET / HTTP/1.1" {
		t.Errorf("WebSocket: %q, %v", heard, err)
	}
	_ = ws.CloseNow()
}

// TestHiddenName uses TLS with Encrypted Client Hello: the outer name is
// allowed, the inner name is not.
func TestHiddenName(t *testing.T) {
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewUnstartedServer(http.NotFoundHandler())
	web.Config.ErrorLog = log.New(io.Discard, "", 0)
	web.StartTLS()
	t.Cleanup(web.Close)
	gu := newGuest(t, loopback(policy.List, "*.good.test"))
	gu.knows("a.good.test", "127.0.0.1")
	if _, err := gu.resolve("a.good.test"); err != nil {
		t.Fatal(err)
	}
	to := netip.AddrPortFrom(GatewayV4, web.Listener.Addr().(*net.TCPAddr).AddrPort().Port())
	shake := func(conf *tls.Config) error {
		conn, err := gu.dial(to)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))
		conf.InsecureSkipVerify = true
		return tls.Client(conn, conf).HandshakeContext(t.Context())
	}
	if err := shake(&tls.Config{ServerName: "a.good.test"}); err != nil {
		t.Errorf("without a hidden name: %v", err)
	}
	_ = shake(&tls.Config{ServerName: "evil.test", MinVersion: tls.VersionTLS13, EncryptedClientHelloConfigList: echConfig(key.PublicKey().Bytes(), "a.good.test")}) // the ledger records the outcome
	gu.await(func(c policy.Connection) bool {
		return !c.Allowed && strings.Contains(c.Rule, "TLS hides the server name")
	})
}

// echConfig returns an ECHConfigList with one configuration (RFC 9849, section
// 4).
func echConfig(public []byte, name string) []byte {
	var c []byte
	c = append(c, 7)                                          // id
	c = binary.BigEndian.AppendUint16(c, 0x20)                // X25519, HKDF-SHA256
	c = binary.BigEndian.AppendUint16(c, uint16(len(public))) //
	c = append(c, public...)                                  //
	c = append(c, 0, 4, 0, 1, 0, 1)                           // HKDF-SHA256, AES-128-GCM
	c = append(c, 32, byte(len(name)))                        // maximum name length, public name
	c = append(append(c, name...), 0, 0)                      // no extensions
	c = append(binary.BigEndian.AppendUint16([]byte{0xfe, 0x0d}, uint16(len(c))), c...)
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(c))), c...)
}
