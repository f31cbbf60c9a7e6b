package tool_test

import (
	"bytes"
	"image"
	"image/png"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"aloft/internal/guest/tool"
	"aloft/internal/guest/tool/tooltest"
	"aloft/internal/guest/web"
)

func TestFetch(t *testing.T) {
	tooltest.Run(t, func(*testing.T, tool.Workspace) tool.Tool { return tool.Fetch(web.New(web.Public)) }, "testdata/fetch")
}

func TestWebFetch(t *testing.T) {
	tooltest.Run(t, func(_ *testing.T, ws tool.Workspace) tool.Tool { return tool.WebFetch(ws, web.New(web.Public)) }, "testdata/web_fetch")
}

// TestFetchAndWebFetchOfAServer fetches from a real server whose address a
// machine would refuse.
func TestFetchAndWebFetchOfAServer(t *testing.T) {
	var shot bytes.Buffer
	if err := png.Encode(&shot, image.NewGray(image.Rect(0, 0, 10, 10))); err != nil {
		t.Fatal(err)
	}
	answers := map[string]struct {
		kind   string
		status int
		body   []byte
	}{
		"/page": {"text/html", 200, []byte("<title>T</title><h1>H</h1><p>words</p>")},
		"/json": {"application/json", 200, []byte(`{"a":1}`)},
		"/gone": {"text/html", 404, []byte("<h1>nothing here</h1>")},
		"/pdf":  {"application/pdf", 200, document("page one")},
		"/png":  {"image/png", 200, shot.Bytes()},
		"/zip":  {"application/zip", 200, []byte("PK\x03\x04\x00")},
		"/none": {"text/html", 200, []byte("<script>x</script>")},
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, ok := answers[r.URL.Path]
		if !ok {
			http.Redirect(w, r, "/json", http.StatusFound)
			return
		}
		w.Header().Set("Content-Type", a.kind)
		w.WriteHeader(a.status)
		_, _ = w.Write(a.body)
	}))
	defer s.Close()
	client := web.New(func(netip.Addr) error { return nil })
	fetch, page := tool.Fetch(client), tool.WebFetch(tool.Workspace{Dir: t.TempDir()}, client)
	for _, c := range []struct {
		hand     tool.Tool
		path     string
		failed   bool
		want     string
		pictures int
	}{
		{fetch, "/page", false, "HTTP 200 OK\nContent-Length: 38\nContent-Type: text/html\n", 0},
		{fetch, "/page", false, "<h1>H</h1>", 0},
		{fetch, "/gone", false, "HTTP 404 Not Found\n", 0},
		{fetch, "/moved", false, "[from " + s.URL + "/json]\n", 0},
		{fetch, "/png", false, "[image/png, ", 1},
		{fetch, "/zip", false, "curl -o in Shell", 0},
		{page, "/page", false, "[title: T]\n\n# H\n\nwords", 0},
		{page, "/json", false, `{"a":1}`, 0},
		{page, "/gone", true, "answered 404 Not Found:\n# nothing here", 0},
		{page, "/pdf", false, "[page 1]\npage one\n", 0},
		{page, "/png", false, "[image/png, ", 1},
		{page, "/zip", true, "curl -o in Shell", 0},
		{page, "/none", false, "scripts, which are not run", 0},
	} {
		out := use(t, c.hand, map[string]any{"url": s.URL + c.path})
		if out.Error != c.failed || !strings.Contains(out.Text, c.want) || len(out.Pictures) != c.pictures {
			t.Errorf("%s %s: %q (error %v, %d pictures), want %q", c.hand.Name, c.path, out.Text, out.Error, len(out.Pictures), c.want)
		}
	}
}
