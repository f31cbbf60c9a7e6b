package api

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aloft/internal/control/artifact"

	_ "gocloud.dev/blob/fileblob"
)

// inMachine is the artifacts folder of a machine: file contents by name.
type inMachine map[string]string

func (m inMachine) List(context.Context) (list []artifact.Remote, more bool, err error) {
	for name, contents := range m {
		sum := sha256.Sum256([]byte(contents))
		list = append(list, artifact.Remote{Name: name, Size: int64(len(contents)), Modified: time.Unix(1e9, 0), SHA256: hex.EncodeToString(sum[:])})
	}
	return list, false, nil
}

func (m inMachine) Read(_ context.Context, name string, to io.Writer) error {
	_, err := io.WriteString(to, m[name])
	return err
}

// keep sets up artifact storage that contains the artifacts of one agent.
func (h *house) keep(id string, files inMachine) {
	h.t.Helper()
	at, err := artifact.FolderURL(filepath.Join(h.dir, "artifacts"))
	if err != nil {
		h.t.Fatal(err)
	}
	kept, err := artifact.Open(h.t.Context(), at, artifact.DefaultLimits)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = kept.Close() })
	if _, err := kept.Collect(h.t.Context(), id, files, nil); err != nil {
		h.t.Fatal(err)
	}
	h.api.machines.Artifacts, h.api.agents.Artifacts, h.api.URLSecret = kept, kept, []byte("secret")
	h.api.PublicURL = func() string { return h.http.URL }
}

// fetch requests an address without an API key.
func (h *house) fetch(address string, header ...string) (*http.Response, string) {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, address, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := h.http.Client().Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return res, string(b)
}

// working stores the artifacts of an agent that works: List fetches new files
// from the machine.
type working struct {
	*artifact.Store

	has inMachine
}

func (w working) List(ctx context.Context, agentID string) ([]artifact.File, error) {
	if _, err := w.Collect(ctx, agentID, w.has, nil); err != nil {
		return nil, err
	}
	return w.Store.List(ctx, agentID)
}

// A file that the agent has just created can be downloaded before any list
// request.
func TestAnArtifactThatIsNew(t *testing.T) {
	h := newHouse(t)
	id, _ := h.begin()
	h.keep(id, inMachine{})
	h.api.machines.Artifacts = working{h.api.machines.Artifacts.(*artifact.Store), inMachine{"new.mp4": "video"}}
	at := "/v1/agents/" + id + "/artifacts/download?path="
	if res, got := h.fetch(h.want(h.call("GET", at+"artifacts/new.mp4", ""), 200).text(t, "url")); res.StatusCode != 200 || got != "video" {
		t.Errorf("%d %q", res.StatusCode, got)
	}
	h.want(h.call("GET", at+"artifacts/newer.mp4", ""), 404)
}

func TestArtifacts(t *testing.T) {
	h := newHouse(t)
	id, _ := h.begin()
	at := "/v1/agents/" + id + "/artifacts"
	if a := h.call("GET", at, ""); string(a.body) != `{"items":[]}`+"\n" && string(a.body) != `{"items":[]}` {
		t.Errorf("at first: %s", a.body)
	}
	h.keep(id, inMachine{"page.html": "<script>alert(1)</script>", "ünï/ä b&c.png": "picture", "v.webm": "<script>no video</script>", "artifacts/inner.txt": "inner"})
	a := h.call("GET", at, "")
	if a.status != 200 || !strings.Contains(string(a.body), `"path":"artifacts/page.html"`) ||
		!strings.Contains(string(a.body), `"sizeBytes":25`) || !strings.Contains(string(a.body), `"updatedAt":"2001-09-09T01:46:40Z"`) {
		t.Errorf("list: %d %s", a.status, a.body)
	}
	for path, want := range map[string]struct{ media, contents string }{
		"artifacts/page.html":                 {"application/octet-stream", "<script>alert(1)</script>"},
		"artifacts/v.webm":                    {"video/webm", "<script>no video</script>"},
		"/opt/cursor/artifacts/ünï/ä b&c.png": {"image/png", "picture"},

		"/opt/cursor/artifacts/artifacts/inner.txt": {"text/plain; charset=utf-8", "inner"},
	} {
		a := h.call("GET", at+"/download?"+url.Values{"path": {path}}.Encode(), "")
		if a.status != 200 {
			t.Fatalf("%s: %d %s", path, a.status, a.body)
		}
		until, err := time.Parse(time.RFC3339, a.text(t, "expiresAt"))
		if err != nil || time.Until(until) > 15*time.Minute || time.Until(until) < 10*time.Minute {
			t.Errorf("it is good until %s, %v", until, err)
		}
		res, got := h.fetch(a.text(t, "url"))
		if res.StatusCode != 200 || got != want.contents || res.Header.Get("Content-Type") != want.media ||
			!strings.HasPrefix(res.Header.Get("Content-Disposition"), "attachment") || res.Header.Get("X-Content-Type-Options") != "nosniff" ||
			!strings.Contains(res.Header.Get("Content-Security-Policy"), "sandbox") {
			t.Errorf("%s: %d %q %v", path, res.StatusCode, got, res.Header)
		}
		if res, got := h.fetch(a.text(t, "url"), "Range", "bytes=1-3"); res.StatusCode != 206 || got != want.contents[1:4] {
			t.Errorf("a part of %s: %d %q", path, res.StatusCode, got)
		}
	}
	for query, status := range map[string]int{"": 400, "?path=": 400, "?path=artifacts/none": 404, "?path=../../aloft.db": 404, "?path=index.json": 404} {
		if a := h.call("GET", at+"/download"+query, ""); a.status != status {
			t.Errorf("download%s: %d %s", query, a.status, a.body)
		}
	}
	if a := h.call("DELETE", "/v1/agents/"+id, ""); a.status != 200 {
		t.Fatalf("delete: %d %s", a.status, a.body)
	}
	if list, err := h.api.machines.Artifacts.List(t.Context(), id); err != nil || len(list) > 0 {
		t.Errorf("of an agent that is gone, %d are kept, %v", len(list), err)
	}
}

// A signed URL gives access to one file until it expires, and to nothing else.
func TestAddressOfAnArtifactIsGoodForNothingElse(t *testing.T) {
	h := newHouse(t)
	id, _ := h.begin()
	other, _ := h.begin()
	h.keep(other, inMachine{"a": "others"})
	h.keep(id, inMachine{"a": "mine", "b": "mine too"})
	u, err := url.Parse(h.call("GET", "/v1/agents/"+id+"/artifacts/download?path=artifacts/a", "").text(t, "url"))
	if err != nil {
		t.Fatal(err)
	}
	if res, got := h.fetch(u.String()); res.StatusCode != 200 || got != "mine" {
		t.Fatalf("%d %s", res.StatusCode, got)
	}
	for name, change := range map[string]func(u *url.URL, q url.Values){
		"path":      func(_ *url.URL, q url.Values) { q.Set("path", "b") },
		"expires":   func(_ *url.URL, q url.Values) { q.Set("expires", "9999999999") },
		"signature": func(_ *url.URL, q url.Values) { q.Del("signature") },
		"agent":     func(u *url.URL, _ url.Values) { u.Path = strings.Replace(u.Path, id, other, 1) },
		"expired": func(_ *url.URL, q url.Values) {
			q.Set("expires", "1")
			q.Set("signature", signatureOf(id, "a", 1))
		},
	} {
		changed, q := *u, u.Query()
		change(&changed, q)
		changed.RawQuery = q.Encode()
		if res, got := h.fetch(changed.String()); res.StatusCode != 403 || strings.Contains(got, "mine") {
			t.Errorf("with another %s: %d %s", name, res.StatusCode, got)
		}
	}
	if strings.Contains(h.log.String(), u.Query().Get("signature")) {
		t.Error("the log holds an address that is good")
	}
}

// signatureOf signs an artifact URL as the server does.
func signatureOf(id, name string, expires int64) string {
	mac := hmac.New(sha256.New, []byte("secret"))
	fmt.Fprintf(mac, "artifact %s %d %s", id, expires, name)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}
