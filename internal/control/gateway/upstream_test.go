package gateway_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"aloft/internal/control/gateway"
	"aloft/internal/control/gateway/gittest"
	"aloft/internal/fault"
	"aloft/internal/loopbacktest"
	"aloft/internal/need"
)

const token = "s3cr3t-forge-token"

// withCredential configures a token for all repositories of the upstream.
func withCredential(w *world) {
	w.SetAuth("bot", token)
	w.cfg.Credentials = []gateway.Credential{{URL: w.URL, Username: "bot", Token: token}}
}

func TestUpstreamCredential(t *testing.T) {
	w := newWorld(t, withCredential)
	m, url := checkedOut(t, w)
	id := m.commit("r", "more", map[string]string{"b.txt": "two\n"})
	m.git("r", "push", "origin", branch)
	if got := w.Branch("r", branch); got != id {
		t.Errorf("upstream has %q, want %s", got, id)
	}
	noToken(t, w)

	// If the server echoes the token, the gateway redacts it.
	w.Hook("r", "pre-receive", "echo your token is "+token+" >&2\nexit 1\n")
	m.commit("r", "again", map[string]string{"b.txt": "three\n"})
	if out := m.fails("r", []string{"push", "origin", branch}, "remote: your token is [token]"); strings.Contains(out, token) {
		t.Errorf("the machine was told the token: %s", out)
	}
	noToken(t, w)

	w.SetAuth("bot", "another")
	m.fails("r", []string{"fetch"}, "remote: aloft: ", "refused the credential configured for "+w.URL, "git.credentials")
	if _, err := w.gw.Check(t.Context(), url, ""); fault.Of(err).Code != "credential_refused" {
		t.Errorf("check: %v", err)
	}
	noToken(t, w)
}

// TestTokensThatChange makes the upstream accept a different token each time,
// because tokens of a GitHub App expire.
func TestTokensThatChange(t *testing.T) {
	now, asked := token, ""
	var fails error
	w := newWorld(t, func(w *world) {
		w.SetAuth("x-access-token", token)
		w.cfg.Credentials = []gateway.Credential{{URL: w.URL, Source: func(_ context.Context, repoURL string) (string, error) {
			asked = repoURL
			return now, fails
		}}}
	})
	m, url := checkedOut(t, w)
	now = "another-" + token
	w.SetAuth("x-access-token", now)
	id := m.commit("r", "more", map[string]string{"b.txt": "two\n"})
	m.git("r", "push", "origin", branch)
	if got := w.Branch("r", branch); got != id || asked != url {
		t.Errorf("upstream has %q, want %s; the token was asked for %s", got, id, asked)
	}
	if got, err := w.gw.Token(t.Context(), url); got != now || err != nil {
		t.Errorf("the API's token is %q, %v", got, err)
	}
	w.Hook("r", "pre-receive", "echo your token is "+now+" >&2\nexit 1\n")
	m.commit("r", "again", map[string]string{"b.txt": "three\n"})
	m.fails("r", []string{"push", "origin", branch}, "remote: your token is [token]")
	noToken(t, w)

	for _, c := range []struct {
		err  error
		code string
	}{
		{fault.Denied("the App is not installed").Hint("install it"), "credential_refused"},
		{fault.Unavailable("it is down"), "repo_unreachable"},
		{errors.New("with words for nobody " + token), "credential_refused"},
	} {
		fails = c.err
		if _, err := w.gw.Check(t.Context(), url, ""); fault.Of(err).Code != c.code || strings.Contains(fault.Of(err).Message, token) {
			t.Errorf("%v: %v", c.err, err)
		}
	}
}

// noToken fails the test if the forge's token appears anywhere in the machine,
// the mirrors or the log.
func noToken(t *testing.T, w *world) {
	t.Helper()
	secrets := []string{token, base64.StdEncoding.EncodeToString([]byte("bot:" + token))}
	for _, s := range secrets {
		if strings.Contains(w.log.String(), s) {
			t.Error("the log holds the token")
		}
	}
	err := filepath.WalkDir(w.cfg.Dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		for _, s := range secrets {
			if strings.Contains(string(b), s) {
				t.Errorf("%s holds the token", path)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestCredentialIsForItsPrefixOnly(t *testing.T) {
	w := newWorld(t, func(w *world) {
		w.SetAuth("bot", token)
		w.cfg.Credentials = []gateway.Credential{
			{URL: w.URL + "/tea", Username: "bot", Token: token}, // compared by path segments, this is not a prefix of team
			{URL: w.URL, Username: "bot", Token: "wrong"},
			{URL: w.URL + "/team", Username: "bot", Token: token},
		}
	})
	in, out := w.Repo("team/r", map[string]string{"a": "a"}), w.Repo("r", map[string]string{"a": "a"})
	if _, err := w.gw.Check(t.Context(), in, ""); err != nil {
		t.Errorf("below the prefix: %v", err)
	}
	_, err := w.gw.Check(t.Context(), out, "")
	if f := fault.Of(err); f.Code != "credential_refused" || !strings.Contains(f.Message, "configured for "+w.URL) {
		t.Errorf("outside: %v", err)
	}
}

// TestRedirectCarriesNoCredential has the forge redirect git to another host.
func TestRedirectCarriesNoCredential(t *testing.T) {
	w := newWorld(t, withCredential)
	evil := gittest.New(t)
	evil.SetAuth("bot", token)
	evil.Repo("r", map[string]string{"a": "a"})
	url := w.Repo("r", map[string]string{"a": "a"})
	w.Intercept(func(rw http.ResponseWriter, r *http.Request) {
		if _, _, ok := r.BasicAuth(); !ok {
			rw.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			rw.WriteHeader(http.StatusUnauthorized)
			return
		}
		http.Redirect(rw, r, strings.Replace(evil.URL, "127.0.0.1", "localhost", 1)+r.URL.RequestURI(), http.StatusFound)
	})
	if _, err := w.gw.Check(t.Context(), url, ""); err == nil {
		t.Error("the redirect was followed to the end")
	}
	for _, r := range evil.Requests() {
		if r.Authorization != "" {
			t.Errorf("%s %s came with %q", r.Method, r.Path, r.Authorization)
		}
	}
}

func TestCheck(t *testing.T) {
	w := newWorld(t)
	url := w.Repo("r", map[string]string{"a.txt": "one\n"})
	main := w.Branch("r", "main")
	gittest.Git(t, w.Path("r"), "tag", "-a", "v1", "-m", "v1", "main")
	dev := w.Commit("r", "dev/1", "second", map[string]string{"b.txt": "two\n"})
	gittest.Git(t, w.Path("r"), "update-ref", "refs/pull/1/head", gittest.Git(t, w.Path("r"), "commit-tree", "-m", "pull", "main^{tree}"))
	pull := gittest.Git(t, w.Path("r"), "rev-parse", "refs/pull/1/head")
	gittest.Git(t, w.Path("r"), "config", "uploadpack.allowAnySHA1InWant", "true")
	for ref, want := range map[string]gateway.RefInfo{
		"":                 {Commit: main, Branch: "main"},
		"main":             {Commit: main, Branch: "main"},
		"refs/heads/dev/1": {Commit: dev, Branch: "dev/1"},
		"v1":               {Commit: main},
		"refs/tags/v1":     {Commit: main},
		main:               {Commit: main},
		main[:10]:          {Commit: main},
		pull:               {Commit: pull}, // on no branch; the upstream sends it on request
	} {
		got, err := w.gw.Check(t.Context(), url, ref)
		if err != nil || got.Commit != want.Commit || got.Branch != want.Branch || got.DefaultBranch != "main" {
			t.Errorf("%q: %+v, %v", ref, got, err)
		}
		if got.Branches["dev/1"] != dev || len(got.Branches) != 2 {
			t.Errorf("branches: %v", got.Branches)
		}
	}
	for _, ref := range []string{"nope", "-x", "--upload-pack=id", "HEAD~1", "main@{0}", "main^{tree}", strings.Repeat("1", 40), "..", "\x00", "refs/pull/1/head"} {
		_, err := w.gw.Check(t.Context(), url, ref)
		if f := fault.Of(err); f.Code != "ref_not_found" || f.Advice == "" {
			t.Errorf("%q: %v", ref, err)
		}
	}
	diff, cut, err := w.gw.Diff(t.Context(), url, main, "dev/1", 1<<20)
	if err != nil || cut || !strings.Contains(diff, "+++ b/b.txt\n@@ -0,0 +1 @@\n+two\n") {
		t.Errorf("diff: %q, %v, %v", diff, cut, err)
	}
	if diff, cut, err = w.gw.Diff(t.Context(), url, "main", "dev/1", 10); err != nil || !cut || len(diff) != 10 {
		t.Errorf("diff of 10 bytes: %q, %v, %v", diff, cut, err)
	}
	patch, err := w.gw.Patch(t.Context(), url, "main", "dev/1", 1<<20)
	if err != nil || !bytes.Contains(patch.Text, []byte("+++ b/b.txt\n@@ -0,0 +1 @@\n+two\n")) || !slices.Equal(patch.Files, []string{"b.txt"}) {
		t.Errorf("patch: %q, %v, %v", patch.Text, patch.Files, err)
	}
	if _, err = w.gw.Patch(t.Context(), url, "main", "dev/1", 10); fault.Of(err).Code != "diff_too_large" {
		t.Errorf("patch of more than 10 bytes: %v", err)
	}
}

func TestCheckOfEmptyRepository(t *testing.T) {
	w := newWorld(t)
	got, err := w.gw.Check(t.Context(), w.Empty("r"), "")
	if err != nil || got.Commit != "" || got.DefaultBranch != "main" {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestUpstreamFailures checks that each failure is reported quickly and with
// the right code.
func TestUpstreamFailures(t *testing.T) {
	w := newWorld(t)
	nobody := "http://" + loopbacktest.Closed(t) + "/r"
	private := gittest.New(t)
	private.SetAuth("a", "b")
	broken := gittest.New(t)
	broken.Intercept(func(rw http.ResponseWriter, _ *http.Request) { http.Error(rw, "oops", http.StatusBadGateway) })
	page := gittest.New(t)
	page.Intercept(func(rw http.ResponseWriter, _ *http.Request) {
		_, _ = rw.Write([]byte("<html>\n<body>hello\n</html>\n"))
	})
	for name, tt := range map[string]struct{ url, code, words string }{
		"NotFound":   {w.URL + "/none.git", "repo_not_found", "git.credentials"},
		"Private":    {private.URL + "/r.git", "credential_refused", "none is configured"},
		"Nobody":     {nobody, "repo_unreachable", "network"},
		"NoHost":     {"http://nowhere.invalid/r", "repo_unreachable", "nowhere.invalid"},
		"BadGateway": {broken.URL + "/r", "repo_unreachable", "502"},
		"WebPage":    {page.URL + "/r", "repo_not_found", ""},
		"NotAURL":    {"github.com/o/r", "repo_url_invalid", "https://"},
		"File":       {"file:///etc", "repo_url_invalid", "not allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			_, err := w.gw.Check(t.Context(), tt.url, "")
			f := fault.Of(err)
			if f.Code != tt.code || !strings.Contains(f.Message+f.Advice, tt.words) || f.Advice == "" {
				t.Errorf("%s: %v", f.Code, err)
			}
			// A failure takes milliseconds, or less than a minute if it is a timeout.
			if took := time.Since(start); took > time.Minute {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// TestNoStaleService takes the upstream down after the first clone. A later
// clone must fail.
func TestNoStaleService(t *testing.T) {
	w := newWorld(t)
	url := w.Repo("r", map[string]string{"a.txt": "one\n"})
	m := w.machine(t, gateway.Grant{Repos: []string{url}})
	m.git("", "clone", "--quiet", url, "r")
	w.Intercept(func(rw http.ResponseWriter, _ *http.Request) { http.Error(rw, "down", http.StatusServiceUnavailable) })
	m.fails("", []string{"clone", url, "again"}, "remote: aloft: repository "+url+" could not be reached", "error: 502")
	w.Intercept(nil)
	m.git("", "clone", "--quiet", url, "again")
}

// TestRefreshIsGivenUp cancels the only caller that waits for an unresponsive
// upstream, and then tries again.
func TestRefreshIsGivenUp(t *testing.T) {
	w := newWorld(t)
	url := w.Repo("r", map[string]string{"a.txt": "one\n"})
	asked := make(chan struct{}, 10)
	w.Intercept(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-asked
		cancel(errors.New("the user left"))
	}()
	if _, err := w.gw.Check(ctx, url, ""); err == nil || !strings.Contains(err.Error(), "the user left") {
		t.Errorf("check: %v", err)
	}
	w.Intercept(nil)
	if _, err := w.gw.Check(t.Context(), url, ""); err != nil {
		t.Errorf("check after: %v", err)
	}
}

func TestStaleLocksAreRemoved(t *testing.T) {
	w := newWorld(t)
	url := w.Repo("r", map[string]string{"a.txt": "one\n"})
	if _, err := w.gw.Check(t.Context(), url, ""); err != nil {
		t.Fatal(err)
	}
	if err := w.gw.Close(); err != nil {
		t.Fatal(err)
	}
	dirs, err := filepath.Glob(filepath.Join(w.cfg.Dir, "mirrors", "*.git"))
	if err != nil || len(dirs) != 1 {
		t.Fatal(dirs, err)
	}
	gittest.Write(t, dirs[0], map[string]string{"refs/heads/main.lock": "", "packed-refs.lock": "", "HEAD.lock": ""})
	id := w.Commit("r", "main", "second", map[string]string{"a.txt": "two\n"})
	w.open(t)
	if got, err := w.gw.Check(t.Context(), url, "main"); err != nil || got.Commit != id {
		t.Errorf("check: %+v, %v", got, err)
	}
}

func TestOneServerPerFolder(t *testing.T) {
	w := newWorld(t)
	if _, err := gateway.New(w.cfg); err == nil || !strings.Contains(err.Error(), "in use by another server") {
		t.Errorf("a second gateway: %v", err)
	}
}

// TestProxy clones from an upstream that is reachable only through a proxy.
func TestProxy(t *testing.T) {
	proxy := gittest.New(t) // the proxy serves the proxied requests itself
	proxy.Repo("r", map[string]string{"a": "a"})
	w := newWorld(t, func(w *world) { w.cfg.Environ = append(w.cfg.Environ, "http_proxy="+proxy.URL) })
	if got, err := w.gw.Check(t.Context(), "http://forge.invalid/r.git", ""); err != nil || got.Commit != proxy.Branch("r", "main") {
		t.Errorf("check: %+v, %v", got, err)
	}
}

// TestDiskFull stores the mirrors on a disk of 3 MiB.
func TestDiskFull(t *testing.T) {
	need.Root(t)
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=3m"); err != nil {
		t.Fatalf("mount: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	w := newWorld(t, func(w *world) { w.cfg.Dir = filepath.Join(disk, "git") })
	m, _ := checkedOut(t, w)
	m.commit("r", "large", map[string]string{"noise": noise(5 << 20)})
	m.fails("r", []string{"push", "origin", branch}, "disk_full", "no space left on the server's disk")
	leftInQuarantine(t, w)
	w.Commit("r", "main", "large", map[string]string{"noise": noise(5 << 20)})
	m.fails("r", []string{"fetch"}, "no space left on the server's disk", "free space", "507")
	left, err := filepath.Glob(filepath.Join(w.cfg.Dir, "mirrors", "*", "objects", "pack", "tmp_*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left of a pack that did not fit: %v, %v", left, err)
	}
}
