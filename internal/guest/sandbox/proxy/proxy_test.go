package proxy

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"aloft/internal/policy"
)

// names are the hosts that the tests' resolver knows. 203.0.113.1 is the test's
// server; the other addresses must not be contacted.
var names = map[string][]string{
	"allowed.test": {"203.0.113.1"}, "sub.allowed.test": {"203.0.113.1"}, "bad.allowed.test": {"203.0.113.1"}, "other.test": {"203.0.113.1"},
	"rebound.allowed.test": {"127.0.0.1", "169.254.169.254", "10.0.0.1", "::1", "::ffff:127.0.0.1", "fe80::1", "64:ff9b::7f00:1"},
	"mixed.allowed.test":   {"127.0.0.1", "203.0.113.1"},
}

var rules = policy.Network{Mode: policy.List, Allow: []string{"*.allowed.test", "198.51.100.0/24", "10.0.0.0/8", "localhost"}, Deny: []string{"bad.allowed.test"}}

// start serves a proxy in front of a server, and returns its address.
func start(t testing.TB, n policy.Network, server string) (at string, p *Proxy) {
	t.Helper()
	m, err := n.Compile()
	if err != nil {
		t.Fatal(err)
	}
	p = &Proxy{
		Policy: m,
		Resolve: func(_ context.Context, name string) ([]netip.Addr, error) {
			var found []netip.Addr
			for _, a := range names[name] {
				found = append(found, netip.MustParseAddr(a))
			}
			if found == nil {
				return nil, fmt.Errorf("%s is not known", name)
			}
			return found, nil
		},
		Dial: func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			if a := to.Addr().String(); a != "203.0.113.1" && a != "198.51.100.7" {
				t.Errorf("the proxy dials %s", to)
			}
			var d net.Dialer
			return d.DialContext(ctx, "tcp", server)
		},
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- p.Serve(l) }()
	t.Cleanup(func() {
		_ = l.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String(), p
}

func TestHosts(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Host) }))
	t.Cleanup(server.Close)
	at, p := start(t, rules, strings.TrimPrefix(server.URL, "http://"))
	for host, want := range map[string]bool{
		"allowed.test": true, "ALLOWED.test": true, "allowed.test.": true, "sub.allowed.test": true, "198.51.100.7": true, "mixed.allowed.test": true,
		"bad.allowed.test": false, "bad.allowed.test.": false, "BAD.allowed.TEST": false, "other.test": false, "allowed.test.other.test": false,
		"rebound.allowed.test": false, "127.0.0.1": false, "10.0.0.1": false, "localhost": false, "127.1": false, "0x7f000001": false, "2130706433": false,
		"169.254.169.254": false, "8.8.8.8": false, "[::1]": false, "[::ffff:127.0.0.1]": false, "[::ffff:7f00:1]": false, "[fe80::1%25lo]": false, "0": false, "[::]": false,
	} {
		for _, how := range []string{"CONNECT", "GET", "SOCKS"} {
			got := try(t, at, how, host)
			if got != want {
				t.Errorf("%s %s: %v, want %v", how, host, got, want)
			}
		}
	}
	for _, d := range p.Denials() {
		if d.Host == "" || d.Rule == "" {
			t.Errorf("denial %+v", d)
		}
	}
}

// try reports whether a host can be reached through the proxy.
func try(t testing.TB, at, how, host string) bool {
	t.Helper()
	c, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	in := bufio.NewReader(c)
	switch how {
	case "CONNECT":
		fmt.Fprintf(c, "CONNECT %s:80 HTTP/1.1\r\nHost: allowed.test\r\n\r\n", host)
		line, _ := in.ReadString('\n')
		return strings.HasPrefix(line, "HTTP/1.1 200 ")
	case "GET":
		fmt.Fprintf(c, "GET http://%s/x HTTP/1.1\r\nHost: allowed.test\r\n\r\n", host)
		answer, err := io.ReadAll(in)
		if err != nil {
			return false
		}
		// The server gets the host name that the policy has checked.
		return bytes.HasPrefix(answer, []byte("HTTP/1.1 200 ")) && bytes.HasSuffix(answer, []byte(host))
	}
	name := strings.Trim(host, "[]")
	if _, err := c.Write(append([]byte{5, 1, 0, 5, 1, 0, 3, byte(len(name))}, append([]byte(name), 0, 80)...)); err != nil {
		t.Fatal(err)
	}
	reply := make([]byte, 4)
	_, err = io.ReadFull(in, reply)
	return err == nil && reply[3] == 0
}

func TestNoModeReachesNothing(t *testing.T) {
	t.Parallel()
	at, _ := start(t, policy.Network{Mode: policy.None, Allow: []string{"allowed.test"}}, "")
	if try(t, at, "CONNECT", "allowed.test") {
		t.Error("reached")
	}
}

// TestOneRequest sends a second request on the same connection. The proxy must
// not forward it.
func TestOneRequest(t *testing.T) {
	t.Parallel()
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, r.Method+" "+r.URL.Path+" "+string(body)+" "+r.Header.Get("Proxy-Authorization"))
	}))
	at, _ := start(t, rules, strings.TrimPrefix(server.URL, "http://"))
	for _, body := range []string{"Content-Length: 3\r\n\r\nabc", "Transfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nTrailer: x\r\n\r\n"} {
		c, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "POST http://allowed.test/one HTTP/1.1\r\nProxy-Authorization: x\r\nHost: evil.test\r\n%sGET http://bad.allowed.test/two HTTP/1.1\r\n\r\n", body)
		_, _ = io.Copy(io.Discard, c)
		_ = c.Close()
	}
	server.Close()
	if want := []string{"POST /one abc ", "POST /one abc "}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the server got %q", got)
	}
}

func TestRealClient(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1<<20)) }))
	t.Cleanup(server.Close)
	at, _ := start(t, rules, server.Listener.Addr().String())
	for _, scheme := range []string{"http", "socks5"} {
		transport := server.Client().Transport.(*http.Transport).Clone()
		transport.Proxy = http.ProxyURL(&url.URL{Scheme: scheme, Host: at})
		transport.TLSClientConfig.ServerName = "example.com"
		client := &http.Client{Transport: transport}
		r, err := client.Get("https://allowed.test/")
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, r.Body)
		if n != 1<<20 || err != nil {
			t.Errorf("%s: %d bytes, %v", scheme, n, err)
		}
		_ = r.Body.Close()
		if r, err := client.Get("https://other.test/"); err == nil {
			_ = r.Body.Close()
			t.Errorf("%s: other.test is reached", scheme)
		}
		transport.CloseIdleConnections()
	}
}

func FuzzHTTP(f *testing.F) {
	for _, s := range []string{
		"CONNECT a.test:443 HTTP/1.1\r\n\r\n", "GET http://a.test/x?y HTTP/1.1\r\nHost: b\r\nContent-Length: 3\r\n\r\nabc", "GET http://[::1]:80 HTTP/1.0\r\n\r\n",
		"GET http://a@b/ HTTP/1.1\r\n\r\n", "POST http://a.test/ HTTP/1.1\nTransfer-Encoding: chunked\n\n", "GET http://a.test\r\n\r\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := readHTTP(bufio.NewReader(strings.NewReader(text)))
		if err != nil || r.connect {
			return
		}
		// The strict parser of net/http must find the same request, and no
		// other.
		again, err := http.ReadRequest(bufio.NewReader(io.MultiReader(bytes.NewReader(r.head), strings.NewReader(strings.Repeat("0\r\n\r\n", 3)))))
		if err != nil {
			return // the server refuses it
		}
		host, _, err := splitHost(again.Host, 80)
		if err != nil || !strings.EqualFold(host, r.host) {
			t.Errorf("%q goes to %q, the server reads %q", text, r.host, again.Host)
		}
		if bytes.Count(r.head, []byte("\r\n\r\n")) != 1 || !bytes.HasSuffix(r.head, []byte("\r\n\r\n")) {
			t.Errorf("%q: head %q", text, r.head)
		}
	})
}

func FuzzSOCKS(f *testing.F) {
	f.Add([]byte{5, 1, 0, 3, 1, 'a', 0, 80})
	f.Add([]byte{5, 1, 0, 1, 127, 0, 0, 1, 0, 80})
	f.Add([]byte{5, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 80})
	f.Fuzz(func(t *testing.T, raw []byte) {
		in := bytes.NewReader(raw)
		host, _, code, err := readRequest(in)
		if err == nil && (code != 0 || len(host) > 255) || err != nil && code == 0 {
			t.Errorf("%x: %q, %d, %v", raw, host, code, err)
		}
		_, _ = readClientHello(bytes.NewReader(raw))
	})
}

func FuzzBody(f *testing.F) {
	f.Add("3\r\nabc\r\n0\r\n\r\n")
	f.Add("ffffffffffffffff\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		var out bytes.Buffer
		if copyBody(&out, bufio.NewReader(strings.NewReader(text)), -1) != nil {
			return
		}
		if err := copyBody(io.Discard, bufio.NewReader(&out), -1); err != nil {
			t.Errorf("%q is passed on as what is no body: %v", text, err)
		}
	})
}

// BenchmarkThroughput copies bytes through the proxy and, as the baseline,
// directly.
func BenchmarkThroughput(b *testing.B) {
	const size = 64 << 20
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				chunk := make([]byte, 256<<10)
				for sent := 0; sent < size; sent += len(chunk) {
					if _, err := c.Write(chunk); err != nil {
						return
					}
				}
			}()
		}
	}()
	at, _ := start(b, rules, l.Addr().String())
	for name, open := range map[string]func() net.Conn{
		"direct": func() net.Conn { c, _ := net.Dial("tcp", l.Addr().String()); return c },
		"proxy": func() net.Conn {
			c, _ := net.Dial("tcp", at)
			_, _ = io.WriteString(c, "CONNECT allowed.test:80 HTTP/1.1\r\n\r\n")
			_, _ = io.ReadFull(c, make([]byte, len("HTTP/1.1 200 Connection established\r\n\r\n")))
			return c
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				c := open()
				if n, err := io.Copy(io.Discard, c); n != size || err != nil {
					b.Fatal(n, err)
				}
				_ = c.Close()
			}
		})
	}
}
