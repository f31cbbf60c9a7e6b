package gateway_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"aloft/internal/control/gateway"
)

func TestCredential(t *testing.T) {
	w := newWorld(t)
	url := w.Repo("r", map[string]string{"a.txt": "one\n"})
	path, err := gateway.PathOf(url)
	if err != nil {
		t.Fatal(err)
	}
	good, err := w.gw.Grant(oneRepo(url, branch))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(header string) int {
		r := httptest.NewRequest(http.MethodGet, path+"/info/refs?service=git-upload-pack", nil)
		if header != "" {
			r.Header.Set("Authorization", header)
		}
		rec := httptest.NewRecorder()
		w.gw.ServeHTTP(rec, r)
		return rec.Code
	}
	for header, want := range map[string]int{
		"":                                  401,
		"Bearer":                            401,
		"Bearer " + good[:63]:               401,
		"Bearer " + strings.Repeat("0", 64): 401,
		"Basic " + good:                     401,
		"Bearer " + good:                    200,
		"bearer " + good:                    200,
	} {
		if got := ask(header); got != want {
			t.Errorf("%q: %d, want %d", header, got, want)
		}
	}
	r := httptest.NewRequest(http.MethodGet, path+"/info/refs?service=git-upload-pack", nil)
	r.SetBasicAuth("any", good)
	rec := httptest.NewRecorder()
	w.gw.ServeHTTP(rec, r)
	if rec.Code != 200 {
		t.Errorf("as a password: %d", rec.Code)
	}

	m := w.machineWith(t, good)
	m.git("", "clone", "--quiet", url, "r")
	w.gw.Revoke(good)
	w.gw.Revoke(good)
	if got := ask("Bearer " + good); got != 401 {
		t.Errorf("revoked: %d, want 401", got)
	}
	m.fails("r", []string{"fetch"}, "fatal: ")
}

func TestOtherRepositoryIsRefused(t *testing.T) {
	w := newWorld(t)
	url := w.Repo("r", map[string]string{"a.txt": "one\n"})
	other := w.Repo("other", map[string]string{"a.txt": "one\n"})
	m := w.machine(t, oneRepo(url, branch))
	m.fails("", []string{"clone", other, "x"}, "remote: aloft: This run may not use the repository "+other, "It may use: "+strings.TrimSuffix(url, ".git"), "name it among the agent's repositories")
	if got := w.Requests(); len(got) != 0 {
		t.Errorf("the upstream was asked: %v", got)
	}
}

func TestGrantThatCannotBe(t *testing.T) {
	w := newWorld(t)
	for name, grant := range map[string]gateway.Grant{
		"NoURL":        {Repos: []string{"r"}},
		"Ext":          {Repos: []string{"ext::sh -c id"}},
		"ExtScheme":    {Repos: []string{"ext://sh"}},
		"File":         {Repos: []string{"file:///srv/git/x.git"}},
		"OptionBranch": {Push: map[string]string{"https://example.com/r": "-x"}},
		"OddBranch":    {Push: map[string]string{"https://example.com/r": "a..b"}},
		"Credential":   {Repos: []string{"https://example.com/r"}, Credential: "short"},
	} {
		if _, err := w.gw.Grant(grant); err == nil {
			t.Errorf("%s: granted", name)
		}
	}
}

// do sends one raw request with a valid credential.
func (m *machine) do(method, path, contentEncoding string, body io.Reader) (int, string) {
	m.t.Helper()
	req, err := http.NewRequest(method, m.addr+path, body)
	if err != nil {
		m.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+m.credential)
	if contentEncoding != "" {
		req.Header.Set("Content-Encoding", contentEncoding)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		m.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		m.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func TestHostileRequests(t *testing.T) {
	w := newWorld(t)
	url := w.Repo("r", map[string]string{"a.txt": "one\n"})
	m := w.machine(t, oneRepo(url, branch))
	m.git("", "clone", "--quiet", url, "r")
	repo, err := gateway.PathOf(url)
	if err != nil {
		t.Fatal(err)
	}
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	if _, err := io.Copy(z, io.LimitReader(zeros{}, 1<<28)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	main := w.Branch("r", "main")
	none := strings.Repeat("0", 40)
	pkt := func(s string) string { return fmt.Sprintf("%04x%s", len(s)+4, s) }
	caps := "\x00report-status side-band-64k"
	for name, tt := range map[string]struct {
		method, path, encoding string
		body                   string
		status                 int
		want                   string
	}{
		"Dumb":            {"GET", repo + "/HEAD", "", "", 404, ""},
		"Root":            {"GET", "/", "", "", 404, ""},
		"WrongMethod":     {"POST", repo + "/info/refs?service=git-upload-pack", "", "", 405, ""},
		"UploadArchive":   {"GET", repo + "/info/refs?service=git-upload-archive", "", "", 404, ""},
		"DotDot":          {"GET", "/http/" + w.URL[7:] + "/x/%2e%2e/r.git/info/refs?service=git-upload-pack", "", "", 400, "dot segment"},
		"EncodedSlash":    {"GET", "/http/" + w.URL[7:] + "/x%2fr.git/info/refs?service=git-upload-pack", "", "", 400, "slash"},
		"Nul":             {"GET", "/http/" + w.URL[7:] + "/r%00.git/info/refs?service=git-upload-pack", "", "", 400, "control"},
		"OptionHost":      {"GET", "/ssh/-oProxyCommand=id/r.git/info/refs?service=git-upload-pack", "", "", 400, "host"},
		"OptionUser":      {"GET", "/ssh/-oProxyCommand=id@example.com/r.git/info/refs?service=git-upload-pack", "", "", 400, "user"},
		"File":            {"GET", "/file/etc/info/refs?service=git-upload-pack", "", "", 403, "may not use"},
		"Encoding":        {"POST", repo + "/git-upload-pack", "br", "", 415, ""},
		"GzipBomb":        {"POST", repo + "/git-upload-pack", "gzip", bomb.String(), 413, ""},
		"NotGzip":         {"POST", repo + "/git-upload-pack", "gzip", "x", 400, ""},
		"NotPkt":          {"POST", repo + "/git-receive-pack", "", "zzzz", 400, "broken pkt-line"},
		"HugePkt":         {"POST", repo + "/git-receive-pack", "", "fff5" + strings.Repeat("x", 70000), 400, "broken pkt-line"},
		"CutPkt":          {"POST", repo + "/git-receive-pack", "", "0100abc", 400, ""},
		"NoFlush":         {"POST", repo + "/git-receive-pack", "", pkt(none + " " + main + " refs/heads/" + branch + caps), 400, ""},
		"PushCert":        {"POST", repo + "/git-receive-pack", "", pkt("push-cert\x00report-status") + "0000", 400, ""},
		"PushOptions":     {"POST", repo + "/git-receive-pack", "", pkt(none+" "+main+" refs/heads/"+branch+caps+" push-options") + "0000", 400, "push options"},
		"ShortID":         {"POST", repo + "/git-receive-pack", "", pkt("0 1 refs/heads/"+branch+caps) + "0000", 400, ""},
		"OddRef":          {"POST", repo + "/git-receive-pack", "", pkt(none+" "+main+" refs/heads/../x"+caps) + "0000", 400, "invalid ref name"},
		"LineBreakInRef":  {"POST", repo + "/git-receive-pack", "", pkt(none+" "+main+" refs/heads/a\nb"+caps) + "0000", 400, ""},
		"DeleteOurs":      {"POST", repo + "/git-receive-pack", "", pkt(main+" "+none+" refs/heads/"+branch+caps) + "0000", 200, "ng refs/heads/" + branch + " deleting is not allowed"},
		"SameRefTwice":    {"POST", repo + "/git-receive-pack", "", pkt(none+" "+main+" refs/heads/"+branch+caps) + pkt(none+" "+main+" refs/heads/"+branch) + "0000", 200, "refused with the rest"},
		"NoPack":          {"POST", repo + "/git-receive-pack", "", pkt(none+" "+main+" refs/heads/"+branch+caps) + "0000", 200, "no pack came"},
		"BrokenPack":      {"POST", repo + "/git-receive-pack", "", pkt(none+" "+main+" refs/heads/"+branch+caps) + "0000PACK\x00\x00\x00\x02\x00\x00\x00\x01garbage", 200, "the pack is damaged"},
		"NoSuchCommit":    {"POST", repo + "/git-receive-pack", "", pkt(none+" "+strings.Repeat("1", 40)+" refs/heads/"+branch+caps) + "0000PACK\x00\x00\x00\x02\x00\x00\x00\x00", 200, "no such commit"},
		"WrongOld":        {"POST", repo + "/git-receive-pack", "", pkt(strings.Repeat("1", 40)+" "+main+" refs/heads/"+branch+caps) + "0000PACK\x00\x00\x00\x02\x00\x00\x00\x00", 200, "ng refs/heads/"},
		"WithoutSideband": {"POST", repo + "/git-receive-pack", "", pkt(none+" "+main+" refs/heads/main\x00report-status") + "0000", 200, "000eunpack ok\n"},
		"Probe":           {"POST", repo + "/git-receive-pack", "", "0000", 200, ""},
	} {
		t.Run(name, func(t *testing.T) {
			status, text := m.do(tt.method, tt.path, tt.encoding, strings.NewReader(tt.body))
			if status != tt.status || !strings.Contains(text, tt.want) {
				t.Errorf("%d %q, want %d and %q", status, text, tt.status, tt.want)
			}
		})
	}
	if got := w.Branch("r", "main") + w.Branch("r", branch); got != main {
		t.Errorf("upstream changed: %s", got)
	}
	leftInQuarantine(t, w)
}

// TestLargeFetchRequests sends two fetch requests that name many objects. The
// first does not end. Because such requests take much memory, the server must
// read the second only after the first has ended, and must serve small requests
// in the meantime.
func TestLargeFetchRequests(t *testing.T) {
	w := newWorld(t)
	url := w.Repo("r", map[string]string{"a.txt": "one\n"})
	m := w.machine(t, gateway.Grant{Repos: []string{url}})
	m.git("", "clone", "--quiet", url, "r")
	repo, err := gateway.PathOf(url)
	if err != nil {
		t.Fatal(err)
	}
	var large strings.Builder
	for i := 0; large.Len() <= 1<<20; i++ {
		fmt.Fprintf(&large, "0032want %040x\n", i)
	}
	rest, end := io.Pipe()
	first, second := make(chan int, 1), make(chan int, 1)
	go func() {
		status, _ := m.do("POST", repo+"/git-upload-pack", "", io.MultiReader(strings.NewReader(large.String()), rest))
		first <- status
	}()
	if _, err := io.WriteString(end, "0000"); err != nil { // returns once everything before it has been sent
		t.Fatal(err)
	}
	small := func() {
		t.Helper()
		if status, text := m.do("POST", repo+"/git-upload-pack", "", strings.NewReader(large.String()[:50])); status != http.StatusForbidden {
			t.Fatalf("a small request: %d %s", status, text)
		}
	}
	small() // by now the server has read the first request
	go func() {
		status, _ := m.do("POST", repo+"/git-upload-pack", "", strings.NewReader(strings.Repeat("zzzz", 1<<18+1))) // the server refuses the request once it has read it
		second <- status
	}()
	for range 30 {
		small()
	}
	select {
	case status := <-second:
		t.Errorf("the second request was answered beside the first: %d", status)
		second <- status
	default:
	}
	if err := end.Close(); err != nil {
		t.Fatal(err)
	}
	if one, two := <-first, <-second; one != http.StatusForbidden || two != http.StatusBadRequest {
		t.Errorf("the answers are %d and %d", one, two)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestSilentMachine starts a push and then sends nothing. The gateway must end
// the request.
func TestSilentMachine(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		gw, err := gateway.New(gateway.Config{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := gw.Close(); err != nil {
				t.Error(err)
			}
		}()
		credential, err := gw.Grant(oneRepo("https://example.com/r", branch))
		if err != nil {
			t.Fatal(err)
		}
		ours, theirs := net.Pipe()
		server := &http.Server{Handler: gw}
		defer func() { _ = server.Close() }()
		conns := make(chan net.Conn, 1)
		conns <- ours
		go func() { _ = server.Serve(listener(conns)) }()
		start := time.Now()
		_, err = io.WriteString(theirs, "POST /https/example.com/r/git-receive-pack HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n"+
			"Authorization: Bearer "+credential+"\r\n\r\n00")
		if err != nil {
			t.Fatal(err)
		}
		reply, err := io.ReadAll(theirs)
		if err != nil || !strings.Contains(string(reply), "400 Bad Request") {
			t.Errorf("%q, %v", reply, err)
		}
		if took := time.Since(start); took < time.Minute || took > 5*time.Minute {
			t.Errorf("the request was held for %v", took)
		}
		close(conns)
	})
}

// listener accepts connections that it receives from a channel.
type listener chan net.Conn

func (l listener) Accept() (net.Conn, error) {
	if c, ok := <-l; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (listener) Close() error   { return nil }
func (listener) Addr() net.Addr { return &net.TCPAddr{} }

// TestCloseEndsRequests closes the gateway while a clone waits for an
// unresponsive upstream.
func TestCloseEndsRequests(t *testing.T) {
	w := newWorld(t)
	url := w.Repo("r", map[string]string{"a.txt": "one\n"})
	m := w.machine(t, oneRepo(url, branch))
	asked := make(chan struct{}, 10)
	w.Intercept(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	})
	cloned := make(chan error)
	go func() {
		defer close(cloned) // even if the test fails
		_, err := m.try("", "clone", url, "r")
		cloned <- err
	}()
	select {
	case <-asked:
	case err := <-cloned:
		t.Fatalf("the clone did not ask: %v", err)
	}
	if err := w.gw.Close(); err != nil {
		t.Error(err)
	}
	if err := <-cloned; err == nil {
		t.Error("the clone succeeded")
	}
}
