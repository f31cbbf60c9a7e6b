package forge

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCleanLog(t *testing.T) {
	for name, c := range map[string]struct{ raw, want string }{
		"plain":               {"a\n\tb\n", "a\n\tb\n"},
		"colors":              {"\x1b[1;31mFAIL\x1b[0m x\n", "FAIL x\n"},
		"a title and a link":  {"\x1b]0;title\x07a \x1b]8;;https://x.test\x1b\\b\x1b]8;;\x1b\\\n", "a b\n"},
		"charsets":            {"\x1b(Ba\x1bMb\n", "ab\n"},
		"an open sequence":    {"a\x1b[31", "a31"},
		"an open string":      {"a\x1b]0;never closed\nb\n", "a\nb\n"},
		"a progress bar":      {"10%\r20%\r100%\r\ndone\n", "100%\ndone\n"},
		"a section of GitLab": {"section_start:1560896352:step_script\r\x1b[0K\x1b[36mScript\n", "Script\n"},
		"GitHub's times":      {"\uFEFF2026-01-02T03:04:05.1234567Z ##[error]x\n2026-01-02T03:04:05.1Z y\nat 2026-01-02T03:04:05.1Z z", "##[error]x\ny\nat 2026-01-02T03:04:05.1Z z"},
		"GitLab's times":      {"2026-01-02T03:04:05.646962Z 00O a\n2026-01-02T03:04:05.646962Z 00E+b\n", "a\nb\n"},
		"no UTF-8":            {"a\xff\xfeb\x00c\u202ed\n", "a\uFFFDbcd\n"},
		"nothing":             {"", ""},
	} {
		if got := string(CleanLog([]byte(c.raw))); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	long := CleanLog([]byte(strings.Repeat("é", maxRawLog)))
	if len(long) > MaxLog || len(long) < MaxLog-4 || strings.ContainsRune(string(long), '\uFFFD') {
		t.Errorf("%d bytes of one long line, which begins with %q", len(long), long[:8])
	}
}

func FuzzCleanLog(f *testing.F) {
	f.Add([]byte("2026-01-02T03:04:05.1234567Z \x1b[31mFAIL\x1b]8;;x\x07\r\n\xff"), 1)
	f.Add([]byte("section_start:1:a\r\x1b[0Kb\r\r\n"), 9000)
	f.Fuzz(func(t *testing.T, raw []byte, times int) {
		raw = bytes.Repeat(raw, min(max(times, 0), 1+1<<20/(len(raw)+1)))
		out := CleanLog(raw)
		if len(out) > MaxLog || !utf8.Valid(out) || bytes.ContainsAny(out, "\x1b\r\x00\u202e") {
			t.Errorf("%d bytes: %.200q", len(out), out)
		}
	})
}

// A host redirects a log request to an object store. The object store must not
// get the token.
func TestTail(t *testing.T) {
	got := make(chan http.Header, 1)
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- r.Header
		_, _ = w.Write([]byte("\x1b[1mthe log\x1b[0m\n"))
	}))
	defer store.Close()
	to := store.URL + "/signed?sig=1"
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) }))
	defer host.Close()
	w, err := NewWire(WireOptions{API: host.URL, Tokens: Token("secret-token"), Words: func([]byte) string { return "" },
		Headers: func(h http.Header, token string) { h.Set("Authorization", token) }})
	if err != nil {
		t.Fatal(err)
	}
	ask := Ask{Repo: Repo{Host: "git.test", Path: "a/b"}, Path: []string{"log"}}
	if log, err := w.Tail(t.Context(), ask); err != nil || string(log) != "the log\n" {
		t.Errorf("%q, %v", log, err)
	}
	if h := <-got; h.Get("Authorization") != "" {
		t.Errorf("the store got %v", h)
	}
	for name, addr := range map[string]string{"the keys of a cloud": "http://169.254.169.254/latest", "a file": "file:///etc/passwd", "itself": host.URL + "/again", "no address": "http://"} {
		to = addr
		if log, err := w.Tail(t.Context(), ask); err == nil {
			t.Errorf("%s: read %q", name, log)
		}
	}
	// A redirect from a remote host never leads to an address of this machine.
	public, err := NewWire(WireOptions{API: "http://git.test", Tokens: Token("t")})
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(store.URL)
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: public.store(u)}
	if res, err := client.Get(store.URL); err == nil {
		res.Body.Close()
		t.Error("a public host leads to this machine")
	}
}
