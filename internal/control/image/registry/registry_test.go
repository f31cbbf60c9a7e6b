package registry

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"aloft/internal/fault"
	"aloft/internal/policy"
)

func TestParse(t *testing.T) {
	c := New(Config{})
	digest := "sha256:" + strings.Repeat("a", 64)
	for text, want := range map[string]struct {
		name   string
		pinned bool
	}{
		"debian:12":                     {"index.docker.io/library/debian:12", false},
		"team/app":                      {"index.docker.io/team/app:latest", false},
		"ghcr.io/x/y@" + digest:         {"ghcr.io/x/y@" + digest, true},
		"ghcr.io/x/y:1@" + digest:       {"ghcr.io/x/y@" + digest, true},
		"localhost:5000/x":              {"localhost:5000/x:latest", false},
		"registry.example.com:5000/x:1": {"registry.example.com:5000/x:1", false},
	} {
		ref, err := c.Parse(text)
		if err != nil || ref.Name != want.name || ref.Pinned() != want.pinned {
			t.Errorf("%s is %q, pinned %v, %v", text, ref.Name, ref.Pinned(), err)
		}
	}
	for _, text := range []string{"", "a b", "UPPER", "x@sha256:1", "https://ghcr.io/x", "../x", "x:" + strings.Repeat("t", 129), "x\n"} {
		if ref, err := c.Parse(text); err == nil {
			t.Errorf("%q is %+v", text, ref)
		}
	}
}

// FuzzParse checks that a reference never leads to a host other than the one it
// names.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"debian:12", "ghcr.io/x/y@sha256:" + strings.Repeat("a", 64), "h:1/a/b:c", "a@b", "[::1]:5000/x"} {
		f.Add(s)
	}
	c := New(Config{})
	f.Fuzz(func(t *testing.T, text string) {
		ref, err := c.Parse(text)
		if err != nil {
			return
		}
		if host := ref.ref.Context().RegistryStr(); strings.ContainsAny(host, "@/?# \n") || !strings.HasPrefix(ref.Name, host+"/") {
			t.Errorf("%q is of the host %q, in full %q", text, host, ref.Name)
		}
	})
}

// TestGuard checks that a registry cannot redirect the server to blocked
// addresses.
func TestGuard(t *testing.T) {
	astray := func(location string) *httptest.Server {
		s := httptest.NewServer(http.RedirectHandler(location, http.StatusFound))
		t.Cleanup(s.Close)
		return s
	}
	t.Setenv("HOME", t.TempDir())
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	for name, c := range map[string]struct {
		location string
		want     error
	}{
		"to the host's metadata": {"https://169.254.169.254/latest", errForbidden},
		"to it by IPv6":          {"https://[fe80::1]/latest", errForbidden},
		"to this host":           {"http://127.0.0.1:9/token", errForbidden},
		"to a neighbour":         {"https://10.1.2.3/token", errForbidden},
		"in clear":               {"http://192.0.2.1/token", errClear},
	} {
		t.Run(name, func(t *testing.T) {
			host := strings.TrimPrefix(astray(c.location).URL, "http://")
			client := New(Config{Named: []string{host}})
			ref, err := client.Parse(host + "/app:1")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := client.Resolve(t.Context(), ref); !errors.Is(err, c.want) {
				t.Errorf("error is %v, want %v", err, c.want)
			}
		})
	}
	// A remote registry must not lead to a service on this host.
	here := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(here.Close)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, here.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := New(Config{}).transport().RoundTrip(req)
	if !errors.Is(err, errForbidden) {
		t.Errorf("error is %v", err)
	}
	if resp != nil {
		_ = resp.Body.Close()
	}
}

// TestOutbound checks that the server never contacts a registry at a blocked
// address, and that the error does not reveal whether a program listens there.
func TestOutbound(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(server.Close)
	open := strings.TrimPrefix(server.URL, "http://")
	_, port, _ := strings.Cut(open, ":")
	for _, host := range []string{open, "localhost:" + port, "[::1]:" + port, "127.0.0.1:9", "0.0.0.0:" + port, "10.1.2.3", "192.168.1.1:5000", "169.254.169.254"} {
		client := New(Config{})
		ref, err := client.Parse(host + "/app:1")
		if err != nil {
			continue // not a reference
		}
		if _, err := client.Resolve(t.Context(), ref); fault.Of(err).Code != "registry_forbidden" {
			t.Errorf("%s: error is %v", host, err)
		}
		if err := client.Save(t.Context(), ref, t.TempDir(), 0); err == nil {
			t.Errorf("%s was fetched from", host)
		}
	}
	if asked > 0 {
		t.Errorf("what listens on this host was asked %d times", asked)
	}
	for name, conf := range map[string]Config{
		"insecure": {Insecure: []string{open}}, "named": {Named: []string{open}}, "with credentials": {Credentials: map[string]Credential{open: {Token: "t"}}}, "opened": {Outbound: policy.Network{Open: []string{"127.0.0.0/8"}}},
	} {
		before := asked
		client := New(conf)
		ref, err := client.Parse(open + "/app:1")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Resolve(t.Context(), ref); fault.Of(err).Code != "image_not_found" || asked == before {
			t.Errorf("%s: it was asked %d times, %v", name, asked-before, err)
		}
	}
}

func TestInsecure(t *testing.T) {
	client := New(Config{Outbound: policy.Network{Open: []string{"192.168.7.7"}}})
	for host, want := range map[string]bool{"192.168.7.7:5000": false, "localhost:5000": true, "127.0.0.1": true, "[::1]:5000": true, "127.0.0.1.example.com": false} {
		if got := loopback(host); got != want {
			t.Errorf("%s is of this host: %v", host, got)
		}
	}
	ref, err := client.Parse("192.168.7.7:5000/x")
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://192.168.7.7:5000/v2/", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.transport().RoundTrip(req)
	if !errors.Is(err, errClear) {
		t.Errorf("a private address in clear: %v", err)
	}
	if resp != nil {
		_ = resp.Body.Close()
	}
	if got := explain(ref.ref.Context().RegistryStr(), ref.Name, err); fault.Of(got).Code != "registry_insecure" {
		t.Errorf("explained as %v", got)
	}
}
