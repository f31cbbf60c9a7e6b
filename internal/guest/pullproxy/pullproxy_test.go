package pullproxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/wire/mux"
)

// start starts a proxy whose control plane answers with the request's host.
func start(t *testing.T) (*Proxy, Config) {
	t.Helper()
	queue := mux.NewListener()
	control := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "control plane: %s %s", r.Host, r.URL.Path)
	})}
	go func() { _ = control.Serve(queue) }() // returns when the server is closed
	t.Cleanup(func() { _ = control.Close() })
	conf := Config{
		Addr: "127.0.0.1:0", Dir: t.TempDir(), Bundle: filepath.Join(t.TempDir(), "bundle"), Defaults: filepath.Join(t.TempDir(), "default", "docker"), Log: slog.New(slog.DiscardHandler),
		Open: func(context.Context) (net.Conn, error) {
			a, b := net.Pipe()
			if !queue.Hand(b) {
				return nil, errors.New("no control plane is connected")
			}
			return a, nil
		},
	}
	p, err := New(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p, conf
}

// settings returns what the service of Docker gets from the shell script that
// configures it.
func settings(t *testing.T, conf Config) (proxy *url.URL, roots *x509.CertPool) {
	t.Helper()
	out, err := exec.Command("sh", "-c", `. "$0"; echo "$HTTPS_PROXY"; cat "$SSL_CERT_FILE"`, conf.Defaults).Output()
	if err != nil {
		t.Fatal(err)
	}
	line, certs, _ := strings.Cut(string(out), "\n")
	if proxy, err = url.Parse(line); err != nil {
		t.Fatal(err)
	}
	roots = x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(certs))
	return proxy, roots
}

func get(t *testing.T, proxy *url.URL, roots *x509.CertPool, address string) (string, error) {
	t.Helper()
	transport := &http.Transport{Proxy: http.ProxyURL(proxy), TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return string(data), err
}

// TestProxy checks which connections end at the control plane, and that the
// others reach their own server, with that server's certificate.
func TestProxy(t *testing.T) {
	direct := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "direct: %s", r.URL.Path) }))
	t.Cleanup(direct.Close)
	p, conf := start(t)
	p.SetHosts([]string{"ghcr.test", "registry.test:5000", "192.0.2.7:5000", "[2001:db8::1]:5000"})
	proxy, roots := settings(t, conf)
	for address, want := range map[string]string{
		"https://ghcr.test/v2/a":             "control plane: ghcr.test /v2/a",
		"https://GHCR.test/v2/a":             "control plane: GHCR.test /v2/a",
		"https://registry.test:5000/v2/b":    "control plane: registry.test:5000 /v2/b",
		"https://192.0.2.7:5000/v2/c":        "control plane: 192.0.2.7:5000 /v2/c",
		"https://[2001:db8::1]:5000/v2/":     "control plane: [2001:db8::1]:5000 /v2/",
		"https://other.invalid/":             "Bad Gateway",
		"https://registry.test.invalid:5000": "Bad Gateway",
	} {
		got, err := get(t, proxy, roots, address)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
	roots.AddCert(direct.Certificate())
	if got, err := get(t, proxy, roots, direct.URL+"/v2/d"); got != "direct: /v2/d" {
		t.Errorf("a server that is no registry: %q, %v", got, err)
	}
	// The list is replaced; certificates of the same issuer stay valid.
	p.SetHosts([]string{"new.test"})
	if got, err := get(t, proxy, roots, "https://new.test/"); got != "control plane: new.test /" {
		t.Errorf("a new registry: %q, %v", got, err)
	}
	if got, err := get(t, proxy, roots, "https://registry.test:5000/"); err == nil {
		t.Errorf("a removed registry: %q", got)
	}
}

// TestOnlyDocker checks that programs without the password cannot use the proxy,
// that only root can read the password, and that certificates of the proxy are
// not trusted elsewhere.
func TestOnlyDocker(t *testing.T) {
	p, conf := start(t)
	p.SetHosts([]string{"ghcr.test"})
	proxy, roots := settings(t, conf)
	for _, user := range []*url.Userinfo{nil, url.User("docker"), url.UserPassword("docker", "wrong")} {
		other := *proxy
		other.User = user
		if got, err := get(t, &other, roots, "https://ghcr.test/"); err == nil || !strings.Contains(err.Error(), "Proxy Authentication Required") {
			t.Errorf("as %v: %q, %v", user, got, err)
		}
	}
	if got, err := get(t, proxy, x509.NewCertPool(), "https://ghcr.test/"); err == nil {
		t.Errorf("without its certificate: %q", got)
	}
	if got, err := get(t, proxy, roots, "http://ghcr.test/"); !strings.Contains(got, "CONNECT") {
		t.Errorf("without TLS: %q, %v", got, err)
	}
	info, err := os.Stat(filepath.Join(conf.Dir, "docker.env"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file with the password: %v, %v", info, err)
	}
}

// TestDefaults checks that the configuration of Docker's service keeps what it
// contains, and that it works in a machine that has no proxy, as after a start
// from a snapshot on another server.
func TestDefaults(t *testing.T) {
	_, conf := start(t)
	if err := os.WriteFile(conf.Defaults, []byte("OWN=kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		again, err := New(t.Context(), conf)
		if err != nil {
			t.Fatal(err)
		}
		_ = again.Close()
	}
	data, err := os.ReadFile(conf.Defaults)
	if err != nil || strings.Count(string(data), "Added by Aloft") != 1 {
		t.Errorf("%s, %v", data, err)
	}
	if err := os.Remove(filepath.Join(conf.Dir, "docker.env")); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("sh", "-c", `set -e; . "$0"; echo "$OWN $HTTPS_PROXY"`, conf.Defaults).CombinedOutput()
	if err != nil || string(out) != "kept \n" {
		t.Errorf("without a proxy: %q, %v", out, err)
	}
}
