package aptcache

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// mirror serves files like a package mirror, and counts requests by path and
// range.
type mirror struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string
	files map[string][]byte
	// before, unless nil, is called before a file is served. It returns true if it has
	// replied to the request.
	before func(w http.ResponseWriter, r *http.Request) bool
}

func newMirror(t *testing.T) *mirror {
	m := &mirror{files: map[string][]byte{}}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		m.asked = append(m.asked, strings.TrimSpace(r.URL.Path+" "+r.Header.Get("Range")))
		data, ok := m.files[r.URL.Path]
		m.mu.Unlock()
		if m.before != nil && m.before(w, r) {
			return
		}
		if r.Header.Get("Proxy-Authorization") != "" {
			t.Error("the mirror got the proxy's password")
		}
		if !ok {
			http.NotFound(w, r)
			return
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
	}))
	t.Cleanup(m.Close)
	return m
}

func (m *mirror) add(path string, size int) (text []byte) {
	text = bytes.Repeat([]byte(path+"\n"), size/(len(path)+1)+1)[:size]
	m.files[path] = text
	return text
}

func (m *mirror) requests() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.asked
	m.asked = nil
	return out
}

func start(t *testing.T, dir string) (*Proxy, *http.Client) {
	t.Helper()
	p, err := Start(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	u, err := url.Parse(p.URL())
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{Proxy: http.ProxyURL(u)}
	t.Cleanup(tr.CloseIdleConnections)
	return p, &http.Client{Transport: tr}
}

func get(t *testing.T, c *http.Client, url string) (int, []byte, error) {
	t.Helper()
	resp, err := c.Get(url)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, data, err
}

func expect(t *testing.T, c *http.Client, url string, want []byte) {
	t.Helper()
	status, data, err := get(t, c, url)
	if err != nil || status != http.StatusOK || !bytes.Equal(data, want) {
		t.Fatalf("%s: status %d, %d bytes instead of %d, %v", url, status, len(data), len(want), err)
	}
}

// TestPackagesAreKept downloads a package twice, with two processes one after
// another. Requests for other files must always reach the mirror.
func TestPackagesAreKept(t *testing.T) {
	m, dir := newMirror(t), t.TempDir()
	deb, release := m.add("/pool/a_1.deb", 300_000), m.add("/dists/InRelease", 100)
	for range 2 {
		p, c := start(t, dir)
		expect(t, c, m.URL+"/pool/a_1.deb", deb)
		expect(t, c, m.URL+"/dists/InRelease", release)
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(m.requests(), ", "); got != "/pool/a_1.deb, /dists/InRelease, /dists/InRelease" {
		t.Errorf("the mirror was asked for %s", got)
	}
	if status, _, err := get(t, second(start(t, dir)), m.URL+"/pool/none.deb"); err != nil || status != http.StatusNotFound {
		t.Errorf("a package that the mirror lacks: %d, %v", status, err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("kept are %v", entries)
	}
}

func second(_ *Proxy, c *http.Client) *http.Client { return c }

// TestDownloadsContinue cuts connections. The proxy must request the rest; if
// the mirror stays unreachable, the next process must request it.
func TestDownloadsContinue(t *testing.T) {
	m, dir := newMirror(t), t.TempDir()
	deb := m.add("/pool/a_1.deb", 1_000_000)
	broken := 0
	m.before = func(w http.ResponseWriter, r *http.Request) bool {
		if broken--; broken < 0 {
			return false
		}
		var from int
		_, _ = fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from)
		if from > 0 {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(deb)-1, len(deb)))
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(deb)-from))
		if from > 0 {
			w.WriteHeader(http.StatusPartialContent)
		}
		if broken > 100 { // not even one byte
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write(deb[from : from+200_000])
		panic(http.ErrAbortHandler)
	}
	broken = 2
	_, c := start(t, dir)
	expect(t, c, m.URL+"/pool/a_1.deb", deb)
	asked := m.requests()
	if len(asked) != 3 || !strings.Contains(asked[1], "bytes=200000-") || !strings.Contains(asked[2], "bytes=400000-") {
		t.Errorf("the mirror was asked for %q", asked)
	}

	// The mirror stays unreachable after 200,000 bytes of another package.
	deb = m.add("/pool/b_1.deb", 1_000_000)
	broken = 1
	before := m.before
	m.before = func(w http.ResponseWriter, r *http.Request) bool {
		if broken == 0 {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return true
		}
		return before(w, r)
	}
	if _, data, err := get(t, c, m.URL+"/pool/b_1.deb"); err == nil {
		t.Errorf("a package of which %d bytes came has no error", len(data))
	}
	m.before = nil
	m.requests()
	expect(t, second(start(t, dir)), m.URL+"/pool/b_1.deb", deb)
	if got := strings.Join(m.requests(), ", "); got != "/pool/b_1.deb bytes=200000-" {
		t.Errorf("afterwards the mirror was asked for %s", got)
	}
}

// TestMirrorWithoutRanges uses mirrors that ignore range requests or return
// another range. The proxy must download the whole package again.
func TestMirrorWithoutRanges(t *testing.T) {
	for _, header := range []string{"", "bytes 0-9/1000", "bytes 5-9/10", "nonsense", "bytes 3-1/2"} {
		m, dir := newMirror(t), t.TempDir()
		deb := m.add("/pool/a_1.deb", 10_000)
		p, c := start(t, dir)
		u, err := url.Parse(m.URL + "/pool/a_1.deb")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p.path(u)+partSuffix, []byte("garbage"), 0o600); err != nil {
			t.Fatal(err)
		}
		m.before = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Header.Get("Range") != "" && header != "" {
				w.Header().Set("Content-Range", header)
				w.WriteHeader(http.StatusPartialContent)
				_, _ = w.Write([]byte("garbage"))
				return true
			}
			_, _ = w.Write(deb)
			return true
		}
		m.files["/pool/a_1.deb"] = deb
		// Without Content-Length the proxy forwards the package but does not
		// cache it.
		for range 2 {
			expect(t, c, m.URL+"/pool/a_1.deb", deb)
		}
	}
}

// TestPipelining sends four requests at once. The mirror replies only when it
// has got all four, and the replies must have the order of the requests.
func TestPipelining(t *testing.T) {
	m := newMirror(t)
	const n = 4
	var all sync.WaitGroup
	all.Add(n)
	m.before = func(http.ResponseWriter, *http.Request) bool {
		all.Done()
		all.Wait()
		return false
	}
	p, _ := start(t, t.TempDir())
	u, err := url.Parse(p.URL())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	password, _ := u.User.Password()
	var want [][]byte
	for i := range n {
		path := fmt.Sprintf("/pool/p_%d.deb", i)
		want = append(want, m.add(path, 100_000-20_000*i))
		req, err := http.NewRequest(http.MethodGet, m.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.SetBasicAuth("apt", password)
		req.Header.Set("Proxy-Authorization", req.Header.Get("Authorization"))
		req.Header.Del("Authorization")
		if err := req.WriteProxy(conn); err != nil {
			t.Fatal(err)
		}
	}
	in := bufio.NewReader(conn)
	for i := range n {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if data, err := io.ReadAll(resp.Body); err != nil || !bytes.Equal(data, want[i]) {
			t.Errorf("reply %d has %d bytes, %v", i, len(data), err)
		}
	}
}

// TestForget checks that a file that apt has found damaged is removed, and no
// other file.
func TestForget(t *testing.T) {
	m, dir := newMirror(t), t.TempDir()
	deb := m.add("/pool/a_1.deb", 1000)
	other := filepath.Join(dir, "0123-other.deb")
	p, c := start(t, dir)
	expect(t, c, m.URL+"/pool/a_1.deb", deb)
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.Forget(); err != nil {
		t.Fatal(err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 || entries[0].Name() != filepath.Base(other) {
		t.Errorf("kept are %v", entries)
	}
	// An unused package is removed after a while.
	long := time.Now().Add(-KeptFor - time.Hour)
	if err := os.Chtimes(other, long, long); err != nil {
		t.Fatal(err)
	}
	start(t, dir)
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("kept are %v", entries)
	}
}

// TestRefused checks that the proxy refuses another user of the host, and requests that
// apt never sends.
func TestRefused(t *testing.T) {
	m := newMirror(t)
	m.add("/a", 10)
	p, c := start(t, t.TempDir())
	u, err := url.Parse(p.URL())
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range []*url.Userinfo{nil, url.User("apt"), url.UserPassword("apt", "wrong")} {
		tr := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: u.Host, User: user})}
		if status, _, err := get(t, &http.Client{Transport: tr}, m.URL+"/a"); err != nil || status != http.StatusProxyAuthRequired {
			t.Errorf("with the user %v: %d, %v", user, status, err)
		}
		tr.CloseIdleConnections()
	}
	resp, err := c.Post(m.URL+"/a", "text/plain", strings.NewReader("x"))
	if err != nil || resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %v, %v", resp, err)
	}
	if _, _, err := get(t, c, "https"+strings.TrimPrefix(m.URL, "http")+"/a"); err == nil {
		t.Error("a tunnel was made")
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, "GET http://x/ HTTP/1.1\r\n")
	for range 100 {
		if _, err = io.WriteString(conn, "A: "+strings.Repeat("a", 1000)+"\r\n"); err != nil {
			break
		}
	}
	if data, _ := io.ReadAll(conn); len(data) > 0 {
		t.Errorf("a request without end got %q", data)
	}
	if got := m.requests(); len(got) != 0 {
		t.Errorf("the mirror was asked for %q", got)
	}
}

func FuzzContentRange(f *testing.F) {
	f.Add("bytes 1-2/3")
	f.Fuzz(func(t *testing.T, text string) {
		if start, size, ok := contentRange(text); ok && (start < 0 || size <= start) {
			t.Errorf("%q starts at %d of %d", text, start, size)
		}
	})
}
