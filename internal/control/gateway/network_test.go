package gateway_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"aloft/internal/control/gateway"
	"aloft/internal/control/gateway/gittest"
	"aloft/internal/control/outbound"
	"aloft/internal/fault"
	"aloft/internal/loopbacktest"
	"aloft/internal/policy"
)

// underPolicy makes the gateway apply the outbound policy, which also allows
// the given addresses, to git servers.
func underPolicy(t *testing.T, open ...string) func(*world) {
	t.Helper()
	network, err := outbound.New(policy.Network{Mode: policy.AllowAll, Open: open})
	if err != nil {
		t.Fatal(err)
	}
	return func(w *world) { w.cfg.Network = network }
}

// canary is a server that must not receive any request.
func canary(t *testing.T, host string) (at string, asked *atomic.Int32) {
	t.Helper()
	asked = new(atomic.Int32)
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			asked.Add(1)
			_ = conn.Close()
		}
	}()
	return l.Addr().String(), asked
}

// A repository URL that leads into the server's own networks causes no
// connection, and the error does not reveal whether a port is open.
func TestUpstreamIsUnderThePolicy(t *testing.T) {
	open, asked := canary(t, "127.0.0.1")
	closed := loopbacktest.Closed(t)
	w := newWorld(t, underPolicy(t))
	for _, scheme := range []string{"http://", "https://", "ssh://git@"} {
		for _, host := range []string{"127.0.0.1", "localhost", "[::1]"} {
			var said []string
			for _, at := range []string{open, closed} {
				_, port, _ := net.SplitHostPort(at)
				_, err := w.gw.Check(t.Context(), scheme+host+":"+port+"/r.git", "")
				f := fault.Of(err)
				if f.Code != "address_blocked" || !strings.Contains(f.Advice, "outbound.open") {
					t.Errorf("%s%s: %s: %v", scheme, at, f.Code, err)
				}
				said = append(said, strings.ReplaceAll(f.Message, port, "PORT"))
			}
			if said[0] != said[1] {
				t.Errorf("an open port and a closed one differ:\n%s\n%s", said[0], said[1])
			}
		}
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("%d connections were made", n)
	}
}

// No spelling of an address bypasses the policy.
func TestSpellingsOfLoopback(t *testing.T) {
	at, asked := canary(t, "127.0.0.1")
	_, port, _ := net.SplitHostPort(at)
	w := newWorld(t, underPolicy(t))
	for _, host := range []string{
		"127.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "0.0.0.0", "0", "127.0.0.2", "LOCALHOST", "localhost.localdomain",
		"[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::]", "[::127.0.0.1]", "[64:ff9b::7f00:1]",
	} {
		for _, scheme := range []string{"http://", "https://", "ssh://"} {
			if _, err := w.gw.Check(t.Context(), scheme+host+":"+port+"/r.git", ""); err == nil {
				t.Errorf("%s%s was fetched from", scheme, host)
			} else if code := fault.Of(err).Code; code != "address_blocked" && !strings.Contains(err.Error(), "cannot be resolved") && code != "repo_url_invalid" {
				t.Errorf("%s%s: %v", scheme, host, err)
			}
		}
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("%d connections were made", n)
	}
}

// Behind a proxy, git may request host names that only the proxy can resolve,
// but no unusual spellings of an address: if no_proxy applies, git connects to
// that address directly.
func TestSpellingsBehindAProxy(t *testing.T) {
	at, asked := canary(t, "127.0.0.1")
	_, port, _ := net.SplitHostPort(at)
	w := newWorld(t, underPolicy(t), func(w *world) {
		w.cfg.Environ = append(w.cfg.Environ, "http_proxy=http://"+loopbacktest.Closed(t), "no_proxy=*")
	})
	for _, host := range []string{"127.1", "2130706433", "0x7f000001", "0"} {
		if _, err := w.gw.Check(t.Context(), "http://"+host+":"+port+"/r.git", ""); err == nil {
			t.Errorf("%s was fetched from", host)
		}
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("%d connections were made", n)
	}
}

// TestUpstreamThatTheOperatorHasNamed checks that a server which the operator
// has configured may have any address.
func TestUpstreamThatTheOperatorHasNamed(t *testing.T) {
	t.Run("Opened", func(t *testing.T) {
		w := newWorld(t, underPolicy(t, "127.0.0.1/32"))
		if _, err := w.gw.Check(t.Context(), w.Repo("r", map[string]string{"a": "a"}), ""); err != nil {
			t.Error(err)
		}
	})
	t.Run("Credential", func(t *testing.T) {
		w := newWorld(t, underPolicy(t), withCredential)
		m, url := checkedOut(t, w) // the repository's URL is below the credential's URL
		m.commit("r", "more", map[string]string{"b.txt": "two\n"})
		m.git("r", "push", "origin", branch)
		other := strings.Replace(url, w.URL, "http://"+loopbacktest.Closed(t), 1)
		if _, err := w.gw.Check(t.Context(), other, ""); fault.Of(err).Code != "address_blocked" {
			t.Errorf("another port of the host: %v", err)
		}
	})
	t.Run("KnownToSSH", func(t *testing.T) {
		home := t.TempDir()
		closed := loopbacktest.Closed(t)
		host, port, _ := net.SplitHostPort(closed)
		gittest.Write(t, home, map[string]string{"known": "[" + host + "]:" + port + " ssh-ed25519 " + hostKey + "\n"})
		// This program replaces ssh, since ssh reads the user's home folder
		// from the password file.
		gittest.Write(t, home, map[string]string{"bin/ssh": "#!/bin/sh\nexec /usr/bin/ssh -o UserKnownHostsFile=" + filepath.Join(home, "known") + ` "$@"` + "\n"})
		if err := os.Chmod(filepath.Join(home, "bin/ssh"), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", home+"/bin:"+os.Getenv("PATH"))
		w := newWorld(t, underPolicy(t))
		if _, err := w.gw.Check(t.Context(), "ssh://git@"+closed+"/r.git", ""); fault.Of(err).Code != "repo_unreachable" {
			t.Errorf("a host of known_hosts: %v", err)
		}
		if _, err := w.gw.Check(t.Context(), "ssh://git@"+loopbacktest.Closed(t)+"/r.git", ""); fault.Of(err).Code != "address_blocked" {
			t.Errorf("another port: %v", err)
		}
	})
}

const hostKey = "AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"

// pinned is a network that resolves names to fixed addresses.
type pinned map[string]string

// Resolve implements [gateway.Network].
func (p pinned) Resolve(_ context.Context, host string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr(p[host])}, nil
}

// Dial implements [gateway.Network].
func (pinned) Dial(context.Context, string, string) (net.Conn, error) { panic("git dials by itself") }

// TestUpstreamIsPinned checks that git connects to the address that the policy
// has checked, and does not resolve the name again.
func TestUpstreamIsPinned(t *testing.T) {
	w := newWorld(t, func(w *world) { w.cfg.Network = pinned{"forge.invalid": "127.0.0.1"} })
	url := strings.Replace(w.Repo("r", map[string]string{"a": "a"}), "127.0.0.1", "forge.invalid", 1)
	if got, err := w.gw.Check(t.Context(), url, ""); err != nil || got.Commit != w.Branch("r", "main") {
		t.Errorf("%+v, %v", got, err)
	}
}

// The gateway does not follow a redirect to another server, even if a server
// listens there.
func TestRedirectElsewhere(t *testing.T) {
	open, asked := canary(t, "127.0.0.1")
	closed := loopbacktest.Closed(t)
	for name, change := range map[string]func(*world){"NoCredential": underPolicy(t, "127.0.0.1/32"), "Credential": withCredential} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, change)
			url := w.Repo("r", map[string]string{"a": "a"})
			var said []string
			for _, to := range []string{"http://" + open, "http://" + closed, "http://localhost:1", "https://127.0.0.1:1", "http://169.254.169.254"} {
				w.Intercept(func(rw http.ResponseWriter, r *http.Request) {
					if _, _, ok := r.BasicAuth(); !ok && name == "Credential" {
						rw.Header().Set("WWW-Authenticate", `Basic realm="x"`)
						rw.WriteHeader(http.StatusUnauthorized)
						return
					}
					http.Redirect(rw, r, to+r.URL.RequestURI(), http.StatusFound)
				})
				_, err := w.gw.Check(t.Context(), url, "")
				if f := fault.Of(err); f.Code != "repo_url_invalid" || !strings.Contains(f.Message, "moved to another server") {
					t.Errorf("%s: %s: %v", to, f.Code, err)
				}
				said = append(said, strings.ReplaceAll(fault.Of(err).Message, to, "THERE"))
			}
			if said[0] != said[1] {
				t.Errorf("an open port and a closed one differ:\n%s\n%s", said[0], said[1])
			}
		})
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("%d connections were made", n)
	}
}

// A repository that was renamed on its server can be used under its old name.
func TestRedirectWithinTheServer(t *testing.T) {
	w := newWorld(t)
	w.SetAuth("bot", token)
	w.Repo("new/r", map[string]string{"a.txt": "one\n"})
	to, err := url.Parse(w.URL)
	if err != nil {
		t.Fatal(err)
	}
	redirects := new(atomic.Int32)
	pass := httputil.NewSingleHostReverseProxy(to)
	front := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if rest, ok := strings.CutPrefix(r.URL.RequestURI(), "/old/"); ok {
			redirects.Add(1)
			http.Redirect(rw, r, "/new/"+rest, http.StatusMovedPermanently)
			return
		}
		pass.ServeHTTP(rw, r)
	}))
	t.Cleanup(front.Close)
	gw := newWorld(t, func(o *world) {
		o.cfg.Credentials = []gateway.Credential{{URL: front.URL, Username: "bot", Token: token}}
	})
	old := front.URL + "/old/r.git"
	m := gw.machine(t, oneRepo(old, branch))
	m.git("", "clone", "--quiet", old, "r")
	m.git("r", "checkout", "--quiet", "-B", branch)
	id := m.commit("r", "more", map[string]string{"b.txt": "two\n"})
	m.git("r", "push", "origin", branch)
	if got := w.Branch("new/r", branch); got != id {
		t.Errorf("the branch is at %q, want %s", got, id)
	}
	if n := redirects.Load(); n == 0 || n > 4 {
		t.Errorf("the server redirected %d times", n)
	}
}

// A server that speaks git's dumb protocol names another server as its
// alternate.
func TestDumbAlternates(t *testing.T) {
	at, asked := canary(t, "127.0.0.1")
	source := gittest.New(t)
	source.Repo("r", map[string]string{"a": "a"})
	gittest.Git(t, source.Path("r"), "update-server-info")
	w := newWorld(t)
	dumb := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch path := strings.TrimPrefix(r.URL.Path, "/r.git"); {
		case path == "/objects/info/http-alternates":
			_, _ = rw.Write([]byte("http://" + at + "/other.git/objects\n"))
		case strings.HasPrefix(path, "/objects/"):
			http.NotFound(rw, r)
		default:
			http.ServeFile(rw, r, filepath.Join(source.Path("r"), filepath.FromSlash(path)))
		}
	}))
	t.Cleanup(dumb.Close)
	if _, err := w.gw.Check(t.Context(), dumb.URL+"/r.git", ""); err == nil {
		t.Error("a repository without objects was fetched")
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("the alternate was asked %d times", n)
	}
}

// TestLargeFilesUnderThePolicy checks that the policy also applies to large
// files: to the git server's address, and to the addresses that the server
// returns.
func TestLargeFilesUnderThePolicy(t *testing.T) {
	at, asked := canary(t, "127.0.0.2")
	w := newWorld(t, underPolicy(t, "127.0.0.1/32"))
	m, store := largeFiles(t, w, mayPush)
	store.SetHref("http://" + at + "/x")
	m.fails("r", []string{"lfs", "pull"})
	if n := asked.Load(); n > 0 {
		t.Errorf("%d connections were made", n)
	}

	if err := w.gw.Close(); err != nil {
		t.Fatal(err)
	}
	underPolicy(t)(w)
	w.open(t)
	m = w.machine(t, mayPush(w.URL+"/r.git"))
	w.Requests()
	status, said := m.do(http.MethodPost, "/http/"+strings.TrimPrefix(w.URL, "http://")+"/r.git/info/lfs/objects/batch", "", strings.NewReader(`{"operation":"download","objects":[]}`))
	if status != http.StatusForbidden || !strings.Contains(said, "git.lfs_hosts") {
		t.Errorf("got %d %s", status, said)
	}
	if requests := w.Requests(); len(requests) > 0 {
		t.Errorf("the git server was asked: %v", requests)
	}
}
