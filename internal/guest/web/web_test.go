package web

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
)

// anywhere allows all addresses, including the tests' own.
func anywhere(netip.Addr) error { return nil }

func serve(t testing.TB, kind string, body []byte) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestPublic(t *testing.T) {
	for _, a := range []string{
		"127.0.0.1", "127.8.9.1", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254", "0.0.0.0", "0.1.2.3",
		"100.64.0.1", "192.0.0.170", "192.0.2.1", "198.18.0.1", "198.19.255.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
		"::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1", "fec0::1", "::ffff:127.0.0.1", "::ffff:10.1.2.3",
		"::7f00:1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2002:a00:1::", "2001:0:1::", "2001:db8::1", "100::1",
	} {
		if err := Public(netip.MustParseAddr(a)); !errors.Is(err, errPrivate) {
			t.Errorf("%s: %v", a, err)
		}
	}
	for _, a := range []string{"1.1.1.1", "93.184.215.14", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::"} {
		if err := Public(netip.MustParseAddr(a)); err != nil {
			t.Errorf("%s: %v", a, err)
		}
	}
	if Public(netip.Addr{}) == nil {
		t.Error("no address is public")
	}
}

func TestGetRefusesPrivateAddresses(t *testing.T) {
	asked := false
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer s.Close()
	port := s.URL[strings.LastIndexByte(s.URL, ':'):]
	// A client must refuse these addresses both when it is given them and when it is
	// redirected to them.
	c := New(Public)
	for _, u := range []string{s.URL, "http://localhost" + port, "http://127.1" + port, "http://[::1]" + port, "http://[::ffff:127.0.0.1]" + port, "http://0.0.0.0" + port} {
		if _, err := c.Get(t.Context(), u); err == nil {
			t.Errorf("%s was answered", u)
		}
	}
	if _, err := c.Get(t.Context(), s.URL); err == nil || !strings.Contains(err.Error(), "use curl in Shell") {
		t.Errorf("the words: %v", err)
	}
	if asked {
		t.Error("the server was asked")
	}
}

// TestGetJudgesTheAddressThatIsDialled uses a name that resolves to a private
// address only at the second lookup.
func TestGetJudgesTheAddressThatIsDialled(t *testing.T) {
	inner := serve(t, "text/plain", []byte("secret"))
	outer := httptest.NewServer(http.RedirectHandler(inner, http.StatusFound))
	defer outer.Close()
	looks := 0
	c := New(func(a netip.Addr) error {
		if looks++; looks > 1 {
			return Public(a)
		}
		return nil
	})
	if a, err := c.Get(t.Context(), outer.URL); !strings.Contains(fmt.Sprint(err), "not public") {
		t.Errorf("%q, %v", a.Body, err)
	}
}

func TestGetIsBounded(t *testing.T) {
	c := New(anywhere)
	loop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Path+"x", http.StatusFound)
	}))
	defer loop.Close()
	if _, err := c.Get(t.Context(), loop.URL); err == nil || !strings.Contains(err.Error(), "redirected more than 10 times") {
		t.Errorf("a loop: %v", err)
	}
	elsewhere := httptest.NewServer(http.RedirectHandler("file:///etc/passwd", http.StatusFound))
	defer elsewhere.Close()
	if _, err := c.Get(t.Context(), elsewhere.URL); err == nil || !strings.Contains(err.Error(), "does not begin with http") {
		t.Errorf("a file: %v", err)
	}
	bomb := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Type", "text/plain")
		z := gzip.NewWriter(w)
		_, _ = io.CopyN(z, zeros{}, 100<<20)
		_ = z.Close()
	}))
	defer bomb.Close()
	if a, err := c.Get(t.Context(), bomb.URL); err != nil || len(a.Body) != MaxBody || !a.Truncated {
		t.Errorf("a bomb: %d bytes, %v", len(a.Body), err)
	}
	stall := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer stall.Close()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("the time is up"))
	defer cancel()
	if _, err := c.Get(ctx, stall.URL); err == nil || err.Error() != "the time is up" {
		t.Errorf("a stall: %v", err)
	}
	for _, u := range []string{"", "x", "ftp://example.com", "http://", "http://[", "http://a b/", "https://" + strings.Repeat("x", maxURL)} {
		if _, err := c.Get(t.Context(), u); err == nil {
			t.Errorf("%.20q was got", u)
		}
	}
}

// zeros is an endless file.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestTextOfEveryCharset(t *testing.T) {
	latin, err := charmap.ISO8859_1.NewEncoder().Bytes([]byte("Grüße"))
	if err != nil {
		t.Fatal(err)
	}
	kanji, err := japanese.ShiftJIS.NewEncoder().Bytes([]byte("<html><head><meta charset=shift_jis></head>日本語"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		kind string
		body []byte
		want string
	}{
		{"text/plain; charset=iso-8859-1", latin, "Grüße"},
		{"text/html", kanji, "日本語"},
		{"text/plain", []byte("\uFEFFplain ünicode"), "plain ünicode"},
		{"text/plain; charset=nonsense", []byte("ünicode"), "ünicode"},
		{"application/json", []byte(`{"a":"ü"}`), `{"a":"ü"}`},
		{"", []byte("no type at all"), "no type at all"},
	} {
		a, err := New(anywhere).Get(t.Context(), serve(t, c.kind, c.body))
		if err != nil || !strings.Contains(a.Text(), c.want) || !a.IsText() {
			t.Errorf("%s: %q (%s), %v", c.kind, a.Text(), a.ContentType, err)
		}
	}
}

func TestPage(t *testing.T) {
	const doc = `<!doctype html><html><head><title> A
 title</title><script>alert("no")</script><style>x{}</style></head><body><!-- no -->
<h1>Head</h1><p>Some <b>bold</b> <a href="/x?y=1#z">link</a> and <img src="data:image/png;base64,aaaa" alt="pic">.</p>
<ul><li>one<li>two</ul><table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>
<pre><code class="language-go">x := 1
</code></pre><div hidden>no</div><a href="javascript:no()">j</a></body></html>`
	a, err := New(anywhere).Get(t.Context(), serve(t, "text/html; charset=utf-8", []byte(doc)))
	if err != nil {
		t.Fatal(err)
	}
	p, err := a.Page()
	if err != nil {
		t.Fatal(err)
	}
	if p.Title != "A title" || strings.Contains(p.Markdown, "no") {
		t.Errorf("%+v", p)
	}
	for _, want := range []string{"# Head", "**bold**", "[link](" + a.URL + "/x?y=1#z)", "- one\n- two", "| a | b |", "```go\nx := 1\n```"} {
		if !strings.Contains(p.Markdown, want) {
			t.Errorf("%q is not in\n%s", want, p.Markdown)
		}
	}
}

func TestPageOfADeepDocument(t *testing.T) {
	a := Answer{URL: "http://a/", ContentType: "text/html", Body: []byte(strings.Repeat("<div><b>", 20_000) + "deep")}
	if p, err := a.Page(); err == nil && strings.Contains(p.Markdown, "deep") {
		t.Error("the depth has no bound")
	}
}

func FuzzPage(f *testing.F) {
	f.Add([]byte("<title>x</title><p>y<table><tr><td>1"), "text/html")
	f.Add([]byte("<a href='http://[::'>x</a><pre><pre>"), "text/html; charset=utf-16")
	f.Fuzz(func(t *testing.T, body []byte, kind string) {
		a := Answer{URL: "http://a/b", ContentType: "text/html", charset: kind, Body: bytes.Clone(body)}
		p, err := a.Page()
		if err == nil && (!utf8.ValidString(p.Markdown) || !utf8.ValidString(p.Title)) {
			t.Errorf("%q", p)
		}
	})
}
