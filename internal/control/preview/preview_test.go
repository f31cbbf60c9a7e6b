package preview

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"aloft/internal/fault"

	"github.com/coder/websocket"
)

const (
	agentA = "bc-11111111-2222-3333-4444-555555555555"
	agentB = "bc-99999999-2222-3333-4444-555555555555"
)

var annsKey = sha256.Sum256([]byte("ann"))

// A stage has two machines. In each, one program has a preview.
type stage struct {
	t       *testing.T
	p       *Previews
	server  *httptest.Server
	refused atomic.Bool // the key has lost its permission
	seen    atomic.Pointer[http.Request]
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t}
	inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.seen.Store(r.Clone(context.Background()))
		if r.URL.Path == "/ws" {
			ws, err := websocket.Accept(w, r, nil)
			if err != nil {
				return
			}
			kind, data, err := ws.Read(r.Context())
			if err == nil {
				_ = ws.Write(r.Context(), kind, data)
			}
			_ = ws.Close(websocket.StatusNormalClosure, "")
			return
		}
		h := w.Header()
		h.Add("Set-Cookie", "theirs=1; Domain=preview.test; Path=/")
		h.Add("Set-Cookie", "aloft-preview=forged; Path=/")
		h.Add("Set-Cookie", "__Host-aloft-preview=forged; Secure; Path=/")
		h.Add("Set-Cookie", "=aloft-preview=forged; Path=/")
		h.Set("Clear-Site-Data", `"cookies"`)
		h.Set("Alt-Svc", `h3="evil.test:443"`)
		h.Set("Content-Security-Policy", "default-src 'self'")
		_, _ = io.WriteString(w, "inside")
	}))
	t.Cleanup(inside.Close)
	var err error
	s.p, err = New(Config{
		Domain: "preview.test", Secret: bytes.Repeat([]byte{7}, 32),
		Dial: func(ctx context.Context, agentID string, port uint16) (net.Conn, error) {
			if port != 3000 {
				return nil, fault.NotFound("nothing is listening on port %d in the machine", port)
			}
			var d net.Dialer
			return d.DialContext(ctx, "tcp", inside.Listener.Addr().String())
		},
		May: func(_ context.Context, key [32]byte, agentID string) error {
			if key != annsKey || agentID != agentA || s.refused.Load() {
				return fault.NotFound("no agent %s", agentID)
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.server = httptest.NewServer(s.p.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "the API") })))
	t.Cleanup(s.server.Close)
	return s
}

// browser returns a client that connects to the stage for every host name, and
// keeps cookies.
func (s *stage) browser() *http.Client {
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return &http.Client{Jar: jar, Transport: &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, s.server.Listener.Addr().String())
	}}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// get sends a request with the given pairs of header name and value.
func (s *stage) get(c *http.Client, url string, header ...string) (*http.Response, string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, url, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := c.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp, string(body)
}

func (s *stage) open(agentID string, port uint16) Link {
	s.t.Helper()
	link, err := s.p.Open(annsKey, agentID, port, "")
	if err != nil {
		s.t.Fatal(err)
	}
	return link
}

func TestPreview(t *testing.T) {
	s := newStage(t)
	c := s.browser()
	link := s.open(agentA, 3000)
	if want := "http://3000-" + agentA + ".preview.test/"; link.URL != want {
		t.Fatalf("the URL is %s, want %s", link.URL, want)
	}
	if resp, body := s.get(c, link.URL); resp.StatusCode != http.StatusUnauthorized || strings.Contains(body, "inside") {
		t.Errorf("without a session: %s %q", resp.Status, body)
	}
	resp, _ := s.get(c, link.SignIn)
	if resp.StatusCode != http.StatusSeeOther || resp.Header.Get("Location") != "/" {
		t.Fatalf("signing in: %s", resp.Status)
	}
	cookie := resp.Header.Get("Set-Cookie")
	if !strings.Contains(cookie, "HttpOnly") || !strings.Contains(cookie, "SameSite=Lax") || strings.Contains(strings.ToLower(cookie), "domain") {
		t.Errorf("the session's cookie is %q", cookie)
	}
	resp, body := s.get(c, link.URL+"x?y=z", "Cookie", "app=1; aloft_session=dash; __Host-aloft-x=1", "Authorization", "Bearer aloft_key", "X-Forwarded-For", "1.2.3.4")
	if resp.StatusCode != http.StatusOK || body != "inside" {
		t.Fatalf("signed in: %s %q", resp.Status, body)
	}
	seen := s.seen.Load()
	if got := seen.Header.Get("Cookie"); got != "app=1" {
		t.Errorf("the machine sees the cookies %q", got)
	}
	if seen.Header.Get("Authorization") != "" || seen.URL.String() != "/x?y=z" || seen.Host+"/" != strings.TrimPrefix(link.URL, "http://") || strings.Contains(seen.Header.Get("X-Forwarded-For"), "1.2.3.4") {
		t.Errorf("the machine sees %+v", seen)
	}
	if got := resp.Header["Set-Cookie"]; len(got) != 1 || got[0] != "theirs=1; Path=/" {
		t.Errorf("the machine sets %q", got)
	}
	if resp.Header.Get("Alt-Svc")+resp.Header.Get("Clear-Site-Data") != "" || len(resp.Header["Content-Security-Policy"]) != 2 || resp.Header.Get("Cross-Origin-Resource-Policy") != "same-origin" {
		t.Errorf("the reply has %v", resp.Header)
	}
	if _, _ = s.get(c, link.URL, "Authorization", "Basic eDp5"); s.seen.Load().Header.Get("Authorization") == "" { // base64 of x:y
		t.Error("a program's own sign-in does not reach it")
	}
	// The session is for one program only, and every request checks the
	// permission.
	u, err := url.Parse(link.URL)
	if err != nil {
		t.Fatal(err)
	}
	mine := c.Jar.Cookies(u)[0].String()
	for _, other := range []string{"3001-" + agentA, "3000-" + agentB} {
		if resp, _ := s.get(s.browser(), "http://"+other+".preview.test/", "Cookie", mine); resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s takes the session of another: %s", other, resp.Status)
		}
	}
	if resp, _ := s.get(s.browser(), link.URL, "Cookie", "aloft-preview=AAAA; "+mine); resp.StatusCode != http.StatusOK {
		t.Errorf("beside a cookie of another's making: %s", resp.Status)
	}
	s.refused.Store(true)
	if resp, body := s.get(c, link.URL); resp.StatusCode != http.StatusForbidden || body == "inside" {
		t.Errorf("without the right: %s", resp.Status)
	}
}

func TestCodesAreGoodOnce(t *testing.T) {
	s := newStage(t)
	link := s.open(agentA, 3000)
	other := strings.Replace(link.SignIn, "//3000-", "//3001-", 1)
	if resp, _ := s.get(s.browser(), other); resp.StatusCode != http.StatusUnauthorized || resp.Header.Get("Set-Cookie") != "" {
		t.Errorf("at another preview: %s", resp.Status)
	}
	if resp, _ := s.get(s.browser(), link.SignIn); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("a code that was shown elsewhere: %s", resp.Status)
	}
	link = s.open(agentA, 3000)
	for i, want := range []int{http.StatusSeeOther, http.StatusUnauthorized} {
		if resp, _ := s.get(s.browser(), link.SignIn); resp.StatusCode != want {
			t.Errorf("use %d: %s", i+1, resp.Status)
		}
	}
	// A code is useless if its key has no permission.
	c := s.browser()
	link = s.open(agentB, 3000)
	s.get(c, link.SignIn)
	if resp, _ := s.get(c, link.URL); resp.StatusCode != http.StatusForbidden {
		t.Errorf("another's agent: %s", resp.Status)
	}
}

// If one user opens many previews, others can still open theirs.
func TestManyCodes(t *testing.T) {
	s := newStage(t)
	for range 20_000 {
		if _, err := s.p.Open(annsKey, agentB, 3000, ""); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(s.p.codes.used); n > 0 {
		t.Errorf("the server remembers %d codes that nobody has used", n)
	}
	if resp, _ := s.get(s.browser(), s.open(agentA, 3000).SignIn); resp.StatusCode != http.StatusSeeOther {
		t.Errorf("another's preview: %s", resp.Status)
	}
}

func TestOtherOrigins(t *testing.T) {
	s := newStage(t)
	c := s.browser()
	link := s.open(agentA, 3000)
	s.get(c, link.SignIn)
	own := strings.TrimSuffix(link.URL, "/")
	for _, tt := range []struct {
		header []string
		want   int
	}{
		{nil, 200},
		{[]string{"Origin", own}, 200},
		{[]string{"Sec-Fetch-Site", "same-origin"}, 200},
		{[]string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, 200},
		{[]string{"Origin", "http://3000-" + agentB + ".preview.test"}, 403},
		{[]string{"Origin", "null"}, 403},
		{[]string{"Origin", "https" + strings.TrimPrefix(own, "http")}, 403},
		{[]string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "script"}, 403},
		{[]string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, 403},
	} {
		if resp, _ := s.get(c, link.URL, tt.header...); resp.StatusCode != tt.want {
			t.Errorf("%v: %s, want %d", tt.header, resp.Status, tt.want)
		}
	}
	dial := func(header http.Header) error {
		ws, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(link.URL, "http")+"ws", &websocket.DialOptions{HTTPClient: c, HTTPHeader: header})
		if err != nil {
			return err
		}
		defer func() { _ = ws.CloseNow() }()
		if err := ws.Write(t.Context(), websocket.MessageText, []byte("hello")); err != nil {
			return err
		}
		if _, heard, err := ws.Read(t.Context()); err != nil || string(heard) != "hello" {
			return errors.Join(err, errors.New("heard "+string(heard)))
		}
		return nil
	}
	u, err := url.Parse(link.URL)
	if err != nil {
		t.Fatal(err)
	}
	session := http.Header{"Cookie": {c.Jar.Cookies(u)[0].String()}}
	c.Jar = nil // its URLs start with ws:
	if err := dial(session); err != nil {
		t.Errorf("WebSocket: %v", err)
	}
	session.Set("Origin", own)
	if err := dial(session); err != nil {
		t.Errorf("WebSocket from the preview: %v", err)
	}
	session.Set("Origin", "http://evil.test")
	if err := dial(session); err == nil {
		t.Error("a WebSocket from another origin was opened")
	}
}

func TestNames(t *testing.T) {
	s := newStage(t)
	for host, want := range map[string]int{
		"aloft.test":                             200, // the API
		"preview.test":                           404,
		"x.preview.test":                         404,
		"0-" + agentA + ".preview.test":          404,
		"70000-" + agentA + ".preview.test":      404,
		"x.3000-" + agentA + ".preview.test":     404,
		"3000-" + agentA + ".PREVIEW.test.:8080": 401,
	} {
		req := httptest.NewRequest(http.MethodGet, "/v1/me", nil)
		req.Host = host
		w := httptest.NewRecorder()
		s.server.Config.Handler.ServeHTTP(w, req)
		if w.Code != want || want != 200 && strings.Contains(w.Body.String(), "API") {
			t.Errorf("%s: %d, want %d", host, w.Code, want)
		}
	}
	closed := s.open(agentA, 81)
	c := s.browser()
	s.get(c, closed.SignIn)
	if resp, body := s.get(c, closed.URL); resp.StatusCode != http.StatusBadGateway || !strings.Contains(body, "nothing is listening on port 81") {
		t.Errorf("a port that is closed: %s %q", resp.Status, body)
	}
	for _, wrong := range []Config{{Domain: "a b"}, {Domain: "127.0.0.1"}, {Domain: "x.test:0"}, {Domain: "*.x"}} {
		wrong.Secret, wrong.Dial, wrong.May = s.p.conf.Secret, s.p.conf.Dial, s.p.conf.May
		if _, err := New(wrong); err == nil {
			t.Errorf("the domain %q is taken", wrong.Domain)
		}
	}
	withTLS, err := New(Config{Domain: "p.example.com:8443", HTTPS: true, Secret: s.p.conf.Secret, Dial: s.p.conf.Dial, May: s.p.conf.May})
	if err != nil {
		t.Fatal(err)
	}
	link, err := withTLS.Open(annsKey, agentA, 3000, "8080")
	if err != nil || link.URL != "https://3000-"+agentA+".p.example.com:8443/" || withTLS.cookieName() != "__Host-aloft-preview" {
		t.Errorf("with TLS: %+v, %v", link, err)
	}
}

func FuzzHost(f *testing.F) {
	f.Add("3000-" + agentA + ".preview.test:80")
	f.Add("preview.test.")
	p := &Previews{host: "preview.test"}
	f.Fuzz(func(t *testing.T, host string) {
		label, ours := p.label(host)
		if id, port, ok := parseLabel(label); ours && ok && (port == 0 || len(id) != len(agentA)) {
			t.Errorf("%q is %q, %d", host, id, port)
		}
	})
}

// FuzzClean has a machine set arbitrary headers. The result must set no cookie
// of the server's and none for another host, and must keep the headers that
// isolate the page.
func FuzzClean(f *testing.F) {
	f.Add("a=b; Domain=.example.com; Path=/", "*")
	f.Add("__Host-aloft-preview=x", "")
	f.Add(" aloft\t=x;domain = a; DOMAIN=b", "unsafe-none")
	f.Add("a=b;\x00dOmain=x", "x")
	f.Fuzz(func(t *testing.T, cookie, opener string) {
		resp := &http.Response{Header: http.Header{"Set-Cookie": {cookie, "plain=1"}, "Alt-Svc": {"h3=\":443\""}, "Cross-Origin-Opener-Policy": {opener}}}
		if err := new(Previews).clean(resp); err != nil {
			t.Fatal(err)
		}
		if resp.Header.Get("Alt-Svc")+resp.Header.Get("Clear-Site-Data") != "" || resp.Header.Get("Origin-Agent-Cluster") != "?1" {
			t.Errorf("%v", resp.Header)
		}
		for _, c := range resp.Cookies() { // parsed as browsers do
			if c.Domain != "" || ours(c.Name) {
				t.Errorf("%q sets %+v", cookie, c)
			}
		}
	})
}
