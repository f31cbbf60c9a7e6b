package forge_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"aloft/internal/control/forge"
	"aloft/internal/fault"
	"aloft/internal/loopbacktest"
)

const secret = "s3cret+token/of=owner"

// wire returns a Wire to a new server with the handler h.
func wire(t *testing.T, h http.HandlerFunc) (*forge.Wire, forge.Repo) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	w, err := forge.NewWire(forge.WireOptions{API: s.URL + "/api/", Tokens: forge.Token(secret), Timeout: time.Minute,
		Headers: func(h http.Header, token string) { h.Set("Authorization", "Bearer "+token) },
		Words:   func(body []byte) string { return string(body) }})
	if err != nil {
		t.Fatal(err)
	}
	return w, forge.Repo{Host: strings.TrimPrefix(s.URL, "http://"), Path: "acme/widget"}
}

func TestRefusals(t *testing.T) {
	reset := strconv.FormatInt(time.Now().Add(20*time.Minute).Unix(), 10)
	for name, c := range map[string]struct {
		status int
		header map[string]string
		body   string
		code   string
		least  time.Duration // minimum wait
	}{
		"401":                  {401, nil, "Bad credentials: " + secret, forge.CodeUnauthorized, 0},
		"403":                  {403, nil, "Resource not accessible", forge.CodeDenied, 0},
		"404":                  {404, nil, "Not Found", forge.CodeNotFound, 0},
		"409":                  {409, nil, "exists", forge.CodeConflict, 0},
		"405":                  {405, nil, "", forge.CodeConflict, 0},
		"422":                  {422, nil, "Validation Failed " + secret, forge.CodeRefused, 0},
		"500":                  {500, nil, "<html>\x1b[31mOops</html>", forge.CodeUnreachable, 0},
		"304":                  {304, nil, "", forge.CodeConflict, 0},
		"429":                  {429, nil, "", forge.CodeRateLimited, time.Minute},
		"429 says how long":    {429, map[string]string{"Retry-After": "7"}, "", forge.CodeRateLimited, 7 * time.Second},
		"429 for ever":         {429, map[string]string{"Retry-After": "99999999"}, "", forge.CodeRateLimited, 2 * time.Hour},
		"429 of the past":      {429, map[string]string{"Retry-After": "-5", "RateLimit-Reset": "1"}, "", forge.CodeRateLimited, time.Second},
		"GitLab's limit":       {429, map[string]string{"RateLimit-Reset": reset}, "", forge.CodeRateLimited, 19 * time.Minute},
		"GitHub's limit":       {403, map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset}, "", forge.CodeRateLimited, 19 * time.Minute},
		"GitHub's other limit": {403, map[string]string{"X-RateLimit-Remaining": "4000"}, "You have exceeded a secondary rate limit", forge.CodeRateLimited, time.Minute},
	} {
		w, r := wire(t, func(w http.ResponseWriter, _ *http.Request) {
			for k, v := range c.header {
				w.Header().Set(k, v)
			}
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.body))
		})
		err := w.Do(t.Context(), forge.Ask{Repo: r, Path: []string{"x"}})
		f := fault.Of(err)
		if f.Code != c.code || strings.Contains(err.Error(), secret) || strings.ContainsRune(err.Error(), '\x1b') {
			t.Errorf("%s: %q %v", name, f.Code, err)
		}
		wait, ok := forge.RetryAfter(err)
		if ok != (c.least > 0) || wait < c.least || wait > max(c.least, 20*time.Minute) {
			t.Errorf("%s: to wait %v, want %v", name, wait, c.least)
		}
		if forge.Retryable(err) != (ok || c.status == 500) {
			t.Errorf("%s: retryable %v", name, forge.Retryable(err))
		}
	}
}

// TestRedirectCarriesNoToken checks that only the configured host gets the
// token.
func TestRedirectCarriesNoToken(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the other host was asked, with %q", r.Header.Get("Authorization"))
	}))
	defer other.Close()
	w, r := wire(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/away":
			http.Redirect(w, r, other.URL+"/api/x", http.StatusTemporaryRedirect)
		case "/api/loop":
			http.Redirect(w, r, "/api/loop", http.StatusFound)
		case "/api/moved":
			http.Redirect(w, r, "/api/there", http.StatusMovedPermanently)
		case "/api/there":
			if r.Method != http.MethodGet || r.Header.Get("Authorization") == "" {
				t.Errorf("%s there, with %q", r.Method, r.Header.Get("Authorization"))
			}
			_, _ = w.Write([]byte(`{"ok": true}`))
		}
	})
	for _, path := range []string{"away", "loop"} {
		if err := w.Do(t.Context(), forge.Ask{Repo: r, Path: []string{path}}); err == nil || !strings.Contains(err.Error(), "redirect") {
			t.Errorf("%s: %v", path, err)
		}
	}
	var v struct{ OK bool }
	if err := w.Do(t.Context(), forge.Ask{Repo: r, Path: []string{"moved"}, Out: &v}); err != nil || !v.OK {
		t.Errorf("what has moved: %v, %v", v, err)
	}
	// Following the redirect would turn the POST into a GET.
	if err := w.Do(t.Context(), forge.Ask{Repo: r, Method: http.MethodPost, Path: []string{"moved"}, In: 1}); !fault.Is(err, fault.KindConflict) {
		t.Errorf("POST to what has moved: %v", err)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	w, r := wire(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/large":
			_, _ = w.Write([]byte(`"`))
			for range 17 << 4 {
				if _, err := w.Write([]byte(strings.Repeat("x", 1<<16))); err != nil {
					return
				}
			}
		case "/api/page":
			_, _ = w.Write([]byte("<!doctype html><title>Sign in</title>"))
		case "/api/cut":
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte(`{"a":`))
		case "/api/endless":
			n, _ := strconv.Atoi(r.URL.Query().Get("page"))
			w.Header().Set("Link", `<https://evil.test/steal?page=`+strconv.Itoa(n+1)+`>; rel="next"`)
			_, _ = w.Write([]byte(`[1]`))
		}
	})
	for path, says := range map[string]string{"large": "16 MiB", "page": "the expected API", "cut": "could not be reached"} {
		var v any
		if err := w.Do(t.Context(), forge.Ask{Repo: r, Path: []string{path}, Out: &v}); !forge.Retryable(err) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", path, err)
		}
	}
	pages := 0
	err := forge.Pages(t.Context(), w, forge.Ask{Repo: r, Path: []string{"endless"}}, func([]int) bool { pages++; return false })
	if err != nil || pages != 10 {
		t.Errorf("%d pages, %v", pages, err)
	}
}

func TestNamesStayInTheirPlace(t *testing.T) {
	var asked string
	w, r := wire(t, func(_ http.ResponseWriter, r *http.Request) { asked = r.URL.EscapedPath() })
	if err := w.Do(t.Context(), forge.Ask{Repo: r, Path: []string{"a/../../b", "c?d#e", "ä"}}); err != nil || asked != "/api/a%2F..%2F..%2Fb/c%3Fd%23e/%C3%A4" {
		t.Errorf("asked for %s, %v", asked, err)
	}
	for _, bad := range []forge.Ask{
		{Repo: r, Path: []string{".."}}, {Repo: r, Path: []string{""}}, {Repo: forge.Repo{Host: r.Host, Path: "a/.."}, Path: []string{"x"}},
		{Repo: forge.Repo{Host: r.Host, Path: "one"}, Path: []string{"x"}}, {Path: []string{"x"}},
	} {
		asked = ""
		if err := w.Do(t.Context(), bad); !fault.Is(err, fault.KindInvalid) || asked != "" {
			t.Errorf("%+v: %v, asked for %s", bad, err, asked)
		}
	}
}

func TestUnreachable(t *testing.T) {
	w, r := wire(t, nil)
	dead, err := forge.NewWire(forge.WireOptions{API: "http://" + loopbacktest.Closed(t), Tokens: forge.Token(secret), Headers: func(http.Header, string) {}, Words: func([]byte) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	if err := dead.Do(t.Context(), forge.Ask{Repo: r, Path: []string{"x"}}); fault.Of(err).Code != forge.CodeUnreachable || fault.Of(err).Advice == "" {
		t.Errorf("nobody listens: %v", err)
	}
	why := errors.New("it was stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if err := w.Do(ctx, forge.Ask{Repo: r, Path: []string{"x"}}); !errors.Is(err, why) {
		t.Errorf("stopped: %v", err)
	}
	for _, api := range []string{"", "git.example.com", "ftp://h", "https://u:p@h/api", "https://h/?a=b"} {
		if _, err := forge.NewWire(forge.WireOptions{API: api}); err == nil {
			t.Errorf("%q is taken for an address", api)
		}
	}
}

// TestSilentHost checks that a request to an unresponsive host times out.
func TestSilentHost(t *testing.T) {
	let := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-let:
		case <-r.Context().Done():
		}
	}))
	defer s.Close()
	defer close(let)
	w, err := forge.NewWire(forge.WireOptions{API: s.URL, Tokens: forge.Token(secret), Timeout: 50 * time.Millisecond,
		Headers: func(http.Header, string) {}, Words: func([]byte) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Do(t.Context(), forge.Ask{Repo: forge.Repo{Host: "h", Path: "a/b"}, Path: []string{"x"}}); !forge.Retryable(err) {
		t.Errorf("a silent host: %v", err)
	}
}

func TestLineAndCut(t *testing.T) {
	for in, want := range map[string]string{" a\n\tb ": "a b", "a\x00b": "a b", "\u202eevil": "evil", "\xff": "\uFFFD", "ääää": "ää…"} {
		if got := forge.Line(in, 7); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := forge.Cut("a\x00\nb\xffc", 100); got != "a\nb\uFFFDc" {
		t.Errorf("cut %q", got)
	}
}

func TestDrafts(t *testing.T) {
	for in, want := range map[string]string{"Draft: x": "x", "draft:x": "x", "WIP: [Draft] x": "x", "x": "", "Drafty": "", "": "", "wip:": ""} {
		rest, draft := forge.Unmarked(in)
		if draft != (want != "" || in == "wip:") || draft && rest != want {
			t.Errorf("%q: %q, %v", in, rest, draft)
		}
	}
	for _, c := range []struct {
		title string
		draft bool
		want  string
	}{{"x", true, "WIP: x"}, {"Draft: x", true, "WIP: x"}, {"Draft: x", false, "x"}, {"WIP:", false, "Untitled"}, {strings.Repeat("y", 50), true, "WIP: " + strings.Repeat("y", 12) + "…"}} {
		if got := forge.Marked("WIP: ", c.title, c.draft, 20); got != c.want || len(got) > 20 {
			t.Errorf("%q %v: %q", c.title, c.draft, got)
		}
	}
}

// TestForeignValues checks that only valid addresses and commits from a host
// reach a page.
func TestForeignValues(t *testing.T) {
	for _, s := range []string{"javascript:alert(1)", "data:text/html,x", "//h/x", "https://u:p@h/", "https:", strings.Repeat("https://h/", 300)} {
		if got := forge.Web(s); got != "" {
			t.Errorf("%q is shown as %q", s, got)
		}
	}
	for _, s := range []string{"", "main", strings.Repeat("g", 40), "--upload-pack=x"} {
		if got := forge.Hash(s); got != "" {
			t.Errorf("%q is the commit %q", s, got)
		}
	}
}

// A response of 3 MiB must not decode to hundreds of MiB.
func TestManyValues(t *testing.T) {
	list := "[" + strings.Repeat("{},", 1<<20) + "{}]"
	w, r := wire(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, list) })
	var out []struct{ Title, Body, State, Author string }
	err := w.Do(t.Context(), forge.Ask{Repo: r, Path: []string{"pulls"}, Out: &out})
	if len(out) > 0 || err == nil || !strings.Contains(err.Error(), "values") {
		t.Errorf("%d elements, error %v", len(out), err)
	}
}

func TestHeadersAreBounded(t *testing.T) {
	w, r := wire(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X", strings.Repeat("x", 1<<20))
		_, _ = io.WriteString(w, "{}")
	})
	if err := w.Do(t.Context(), forge.Ask{Repo: r, Path: []string{"x"}}); fault.Of(err).Code != forge.CodeUnreachable {
		t.Errorf("error is %v", err)
	}
}
