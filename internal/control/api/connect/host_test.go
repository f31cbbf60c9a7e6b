package connect

import "testing"

// TestCanonicalHost checks that all spellings of a host have one form.
func TestCanonicalHost(t *testing.T) {
	for _, c := range []struct{ scheme, host, want string }{
		{"https", "GitHub.com", "github.com"}, {"https", "github.com:443", "github.com"}, {"https", "github.com:00443", "github.com"},
		{"https", "github.com.", "github.com"}, {"https", "github.com.:443", "github.com"}, {"https", "github.com:", "github.com"},
		{"https", "git.test:80", "git.test:80"}, {"http", "git.test:80", "git.test"}, {"http", "git.test:443", "git.test:443"},
		{"https", "[::1]", "[::1]"}, {"https", "[::1]:443", "[::1]"}, {"https", "[::1]:3000", "[::1]:3000"},
	} {
		if got := CanonicalHost(c.scheme, c.host); got != c.want {
			t.Errorf("%s://%s is %q; want %q", c.scheme, c.host, got, c.want)
		}
	}
}
