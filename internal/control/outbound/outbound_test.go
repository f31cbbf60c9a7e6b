package outbound

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"aloft/internal/fault"
	"aloft/internal/policy"
)

func client(t testing.TB, network policy.Network) *Client {
	t.Helper()
	c, err := New(network)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCheck(t *testing.T) {
	c := client(t, policy.Network{Deny: []string{"*.evil.test"}})
	for raw, code := range map[string]string{
		"https://example.com/a?b=c": "", "http://example.com:8080": "", "https://93.184.216.34/": "",
		"": "validation_error", "x": "validation_error", "ftp://example.com": "validation_error", "https:///a": "validation_error",
		"https://u:p@example.com/": "validation_error", "https://example.com/" + strings.Repeat("a", maxURL): "validation_error",
		"http://127.0.0.1/": "address_blocked", "http://[::1]/": "address_blocked", "http://[::ffff:7f00:1]/": "address_blocked",
		"http://10.0.0.1:80/": "address_blocked", "http://169.254.169.254/latest": "address_blocked", "https://a.evil.test/": "address_blocked",
	} {
		err := c.Check(raw)
		if (err == nil) != (code == "") || err != nil && fault.Of(err).Code != code {
			t.Errorf("%q: %v, want %q", raw, err, code)
		}
	}
}

// A host name is checked by the address to which it resolves when it is dialed.
func TestNamesOfPrivateAddresses(t *testing.T) {
	far := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was reached") }))
	defer far.Close()
	at := strings.Replace(far.URL, "127.0.0.1", "localhost.", 1)
	if _, _, err := client(t, policy.Network{}).Image(t.Context(), at); err == nil {
		t.Error("localhost was reached by its name")
	}
}

// Every hop of a redirect is checked, and gets no data about the previous hop.
// Images are recognized by their bytes, whatever type the server sends.
func TestRedirectsAndTypes(t *testing.T) {
	const png = "\x89PNG\r\n\x1a\n"
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Referer") != "" || r.Header.Get("Authorization") != "" || r.Header.Get("Cookie") != "" {
			t.Errorf("%s is told %v", r.URL.Path, r.Header)
		}
		w.Header().Set("Content-Type", "image/png")
		switch _, port, _ := strings.Cut(r.Host, ":"); r.URL.Path {
		case "/there":
			http.Redirect(w, r, "/picture", http.StatusFound)
		case "/inside":
			http.Redirect(w, r, "http://127.0.0.2:"+port+"/picture", http.StatusFound)
		case "/metadata":
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data", http.StatusTemporaryRedirect)
		case "/file":
			w.Header().Set("Location", "file:///etc/passwd")
			w.WriteHeader(http.StatusFound)
		case "/named":
			http.Redirect(w, r, "http://localhost.:"+port+"/picture", http.StatusFound)
		case "/script":
			_, _ = w.Write([]byte("<svg xmlns='http://www.w3.org/2000/svg'><script/></svg>"))
		case "/picture":
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte(png))
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer far.Close()
	c := client(t, policy.Network{Open: []string{"127.0.0.1"}, Deny: []string{"localhost"}})
	for path, code := range map[string]string{
		"/there?token=secret": "", "/picture": "", "/inside?token=secret": "address_blocked", "/metadata": "address_blocked", "/named": "address_blocked",
		"/file": "validation_error", "/script": "validation_error", "/none": "image_unreachable",
	} {
		data, media, err := c.Image(t.Context(), far.URL+path)
		switch {
		case code == "" && (err != nil || media != "image/png" || string(data) != png):
			t.Errorf("%s: %q %s %v", path, data, media, err)
		case code != "" && (err == nil || fault.Of(err).Code != code || strings.Contains(err.Error(), "secret")):
			t.Errorf("%s: %v, want %s", path, err, code)
		}
	}
}

func TestImageBounds(t *testing.T) {
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/loop" {
			http.Redirect(w, r, "/loop", http.StatusFound)
			return
		}
		_, _ = w.Write(append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, MaxImage)...))
	}))
	defer far.Close()
	c := client(t, policy.Network{Open: []string{"127.0.0.1"}})
	for path, says := range map[string]string{"/large": "15 MiB", "/loop?token=secret": "redirects"} {
		if _, _, err := c.Image(t.Context(), far.URL+path); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// FuzzCheck checks that no URL with a blocked address passes Check.
func FuzzCheck(f *testing.F) {
	for _, raw := range []string{"https://example.com/", "http://[::ffff:127.0.0.1]:1/", "http://0x7f.1/", "http://127.1/", "http://u@10.0.0.1/", "//x", "http://[fe80::1%25eth0]/"} {
		f.Add(raw)
	}
	c := client(f, policy.Network{})
	rules, err := policy.Network{}.Compile()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if c.Check(raw) != nil {
			return
		}
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatalf("%q is let through: %v", raw, err)
		}
		if addr, err := netip.ParseAddr(u.Hostname()); err == nil {
			if rule, blocked := rules.Blocked(addr); blocked {
				t.Errorf("%q is let through, which is %s", raw, rule)
			}
		}
	})
}

// All of the host's own addresses are blocked, even public ones.
func TestOwnAddress(t *testing.T) {
	public := func() ([]net.Addr, error) {
		return []net.Addr{&net.IPNet{IP: net.ParseIP("203.0.113.7"), Mask: net.CIDRMask(24, 32)}, &net.IPNet{IP: net.ParseIP("2001:db8::7"), Mask: net.CIDRMask(64, 128)}}, nil
	}
	c := client(t, policy.Network{})
	c.host = public
	for _, url := range []string{"http://203.0.113.7/", "https://203.0.113.7:8443/x", "http://[2001:db8::7]/", "http://[::ffff:203.0.113.7]/"} {
		if err := c.Check(url); fault.Of(err).Code != "address_blocked" {
			t.Errorf("%s: %v", url, err)
		}
		if _, err := c.Post(t.Context(), url, http.Header{}, nil); fault.Of(err).Code != "address_blocked" {
			t.Errorf("post to %s: %v", url, err)
		}
	}
	if err := c.Check("http://203.0.113.8/"); err != nil {
		t.Error(err)
	}
	c = client(t, policy.Network{Open: []string{"203.0.113.7"}})
	c.host = public
	if err := c.Check("http://203.0.113.7/"); err != nil {
		t.Errorf("opened: %v", err)
	}
}
