package dashboard

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

// built is the output of a build of web/: one file of each kind.
func built(t *testing.T) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	for name, text := range map[string]string{
		"index.html":        "<!doctype html><title>built</title>",
		"assets/main-1a.js": strings.Repeat("let a = 1\n", 100),
		"icon.svg":          "<svg/>",
	} {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		files[name+".gz"] = &fstest.MapFile{Data: b.Bytes()}
	}
	files["assets/main-1a.js.br"] = &fstest.MapFile{Data: []byte("by Brotli")}
	return files
}

// teapot answers requests that the dashboard does not handle.
var teapot = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })

func serve(t *testing.T, files fstest.MapFS) http.Handler {
	t.Helper()
	h, err := Handler(files, teapot)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func get(h http.Handler, method, path string, header ...string) *http.Response {
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	data, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// The dashboard's paths need no key, so the test lists all of them. All other
// paths go to the API.
func TestWhatNeedsNoKey(t *testing.T) {
	h := serve(t, built(t))
	for _, path := range []string{
		"/", "/agents", "/agents/bc-1", "/agents/bc-1/changes", "/approvals", "/automations", "/automations/auto-1", "/environments", "/environments/e", "/settings", "/settings/secrets",
		"/assets/main-1a.js", "/icon.svg",
	} {
		if r := get(h, "GET", path); r.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d", path, r.StatusCode)
		}
	}
	for _, path := range []string{
		"/v1/agents", "/v0/agents", "/v1/me", "/metrics", "/healthz", "/openapi.json", "/.well-known/jwks.json", "/assets/other.js", "/assets/", "/index.html",
		"//v1/agents", "/v1//agents", "/agents/../v1/me", "/index.html.gz", "/assets/main-1a.js.gz", "/assets/main-1a.js.br", "/agentsx", "/approvals/x", "/unknown",
	} {
		if r := get(h, "GET", path); r.StatusCode != http.StatusTeapot {
			t.Errorf("%s: status %d, want the API's", path, r.StatusCode)
		}
	}
}

// TestEveryScreenCanBeReloaded checks that the server serves the dashboard at the path of
// every screen that the dashboard itself knows.
func TestEveryScreenCanBeReloaded(t *testing.T) {
	routes, err := os.ReadFile("../../../web/src/route.ts")
	if err != nil {
		t.Fatal(err)
	}
	_, places, found := strings.Cut(string(routes), "switch (first) {")
	places, _, ended := strings.Cut(places, "\n  }\n")
	screens := regexp.MustCompile(`case "([a-z]+)":`).FindAllStringSubmatch(places, -1)
	if !found || !ended || len(screens) < 6 {
		t.Fatalf("route.ts has the screens %q", screens)
	}
	h := serve(t, built(t))
	for _, screen := range screens {
		if r := get(h, "GET", "/"+screen[1]); r.StatusCode != http.StatusOK {
			t.Errorf("/%s: status %d", screen[1], r.StatusCode)
		}
	}
}

func TestOnlyReading(t *testing.T) {
	h := serve(t, built(t))
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS"} {
		if r := get(h, method, "/agents"); r.StatusCode != http.StatusMethodNotAllowed || r.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: status %d, Allow %q", method, r.StatusCode, r.Header.Get("Allow"))
		}
	}
}

func TestHeaders(t *testing.T) {
	h := serve(t, built(t))
	page := get(h, "GET", "/agents")
	got := page.Header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "media-src 'self' blob:", "frame-ancestors 'none'", "connect-src 'self'"} {
		if !strings.Contains(got, want) {
			t.Errorf("the policy has no %s: %s", want, got)
		}
	}
	if strings.Contains(got, "unsafe") || strings.Contains(got, "*") || strings.Contains(got, "\n") {
		t.Errorf("policy %q", got)
	}
	if got := page.Header.Get("Cache-Control"); got != "no-cache" {
		t.Errorf("a page has Cache-Control %q", got)
	}
	if got := get(h, "GET", "/assets/main-1a.js").Header.Get("Cache-Control"); !strings.Contains(got, "immutable") {
		t.Errorf("an asset has Cache-Control %q", got)
	}
}

func TestEncodings(t *testing.T) {
	h := serve(t, built(t))
	const path = "/assets/main-1a.js"
	plain := get(h, "GET", path)
	if plain.Header.Get("Content-Encoding") != "" || !strings.HasPrefix(body(t, plain), "let a = 1\nlet a") {
		t.Error("whoever does not say that they take gzip must get it plain")
	}
	if r := get(h, "GET", path, "Accept-Encoding", "br;q=0, gzip;q=0.0"); r.Header.Get("Content-Encoding") != "" {
		t.Error("a coding was sent to a client that refuses it")
	}
	best := get(h, "GET", path, "Accept-Encoding", "gzip, deflate, br, zstd")
	if best.Header.Get("Content-Encoding") != "br" || best.Header.Get("Vary") != "Accept-Encoding" || body(t, best) != "by Brotli" {
		t.Errorf("a browser gets Content-Encoding %q, Vary %q", best.Header.Get("Content-Encoding"), best.Header.Get("Vary"))
	}
	if r := get(h, "GET", "/agents", "Accept-Encoding", "br, gzip"); r.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("a file that the build has by gzip only has Content-Encoding %q", r.Header.Get("Content-Encoding"))
	}
	small := get(h, "GET", path, "Accept-Encoding", "gzip")
	if small.Header.Get("Content-Encoding") != "gzip" {
		t.Fatal("not compressed")
	}
	r, err := gzip.NewReader(small.Body)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil || len(text) != 1000 {
		t.Errorf("%d bytes, error %v", len(text), err)
	}
	if head := get(h, "HEAD", path); body(t, head) != "" || head.ContentLength != 1000 {
		t.Errorf("HEAD says %d bytes", head.ContentLength)
	}
}

func TestNotModified(t *testing.T) {
	h := serve(t, built(t))
	tag := get(h, "GET", "/agents").Header.Get("ETag")
	if len(tag) < 10 {
		t.Fatalf("ETag %q", tag)
	}
	for _, header := range []string{tag, `"x", W/` + tag, "*"} {
		if r := get(h, "GET", "/agents", "If-None-Match", header); r.StatusCode != http.StatusNotModified || body(t, r) != "" {
			t.Errorf("If-None-Match %s: status %d", header, r.StatusCode)
		}
	}
	if r := get(h, "GET", "/agents", "If-None-Match", `"x"`); r.StatusCode != http.StatusOK {
		t.Errorf("status %d for another's tag", r.StatusCode)
	}
}

func TestWithoutABuild(t *testing.T) {
	r := get(serve(t, fstest.MapFS{}), "GET", "/")
	if got := body(t, r); r.StatusCode != http.StatusOK || !strings.Contains(got, "make build") {
		t.Errorf("status %d: %s", r.StatusCode, got)
	}
}

func TestBrokenBuildIsAnError(t *testing.T) {
	for name, data := range map[string]string{"index.html.gz": "no gzip"} {
		if _, err := Handler(fstest.MapFS{name: {Data: []byte(data)}}, teapot); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
