package repourl

import (
	"strings"
	"testing"

	"aloft/internal/fault"
)

func TestParse(t *testing.T) {
	for in, want := range map[string]string{
		"https://github.com/o/r":               "https://github.com/o/r",
		"https://github.com/o/r.git":           "https://github.com/o/r",
		"HTTPS://GitHub.com:443/o/r.git/":      "https://github.com/o/r",
		"https://user:secret@github.com/o/r":   "https://github.com/o/r",
		"https://github.com//o/r":              "https://github.com/o/r",
		"https://github.com/o/%72":             "https://github.com/o/r",
		"https://github.com/O/R":               "https://github.com/O/R",
		"https://git.example.com:8443/a/b/c":   "https://git.example.com:8443/a/b/c",
		"https://git.example.com:08443/a":      "https://git.example.com:8443/a",
		"https://git.example.com:/a":           "https://git.example.com/a",
		"http://[::1]:3000/r":                  "http://[::1]:3000/r",
		"http://127.0.0.1:80/r":                "http://127.0.0.1/r",
		"https://h/a%20b/ü":                    "https://h/a%20b/%C3%BC",
		"https://h/a%3Fb":                      "https://h/a%3Fb",
		"https://h/.git":                       "https://h/.git",
		"ssh://git@github.com/o/r.git":         "ssh://git@github.com/o/r",
		"ssh://git@github.com:22/o/r":          "ssh://git@github.com/o/r",
		"ssh://git@github.com:2222/o/r":        "ssh://git@github.com:2222/o/r",
		"git@github.com:o/r.git":               "ssh://git@github.com/o/r",
		"github.com:/o/r":                      "ssh://github.com/o/r",
		"file:///srv/git/x.git":                "file:///srv/git/x.git",
		"file:///srv/git/x":                    "file:///srv/git/x",
		"https://github.com/o/r.git.git":       "https://github.com/o/r.git",
		"https://xn--bcher-kva.example/o/r":    "https://xn--bcher-kva.example/o/r",
		"https://github.com/-u/--upload-pack=": "https://github.com/-u/--upload-pack=",
	} {
		r, err := Parse(in)
		if err != nil || r.Key() != want {
			t.Errorf("%s: %q, %v; want %q", in, r.Key(), err, want)
		}
	}
	for _, in := range []string{
		"", "r", "/srv/git/x.git", "./x", "../x", "github.com/o/r", "ext::sh -c id", "ext://x/y", "git://h/r", "ftp://h/r", "fd::17",
		"https://", "https:///r", "https://h", "https://h/", "https://h/a/../b", "https://h/a/%2e%2e/b", "https://h/./a", "https://h/a//b",
		"https://h/a%2fb", "https://h/a%5cb", `https://h/a\b`, "https://h/a%00", "https://h/a%0ab", "https://h/a\nb", "https://h/%zz", "https://h/%",
		"https://h/r?x=1", "https://h/r#x", "https://-h/r", "https://h-/r", "https://h..x/r", "https://h:0/r", "https://h:65536/r", "https://h:x/r",
		"https://h:+1/r", "https://h.example.com.:443/r", "https://h h/r", "https://ü/r", "https://h%2f/r", "ssh://-oProxyCommand=id/r",
		"ssh://-oProxyCommand=id@h/r", "-oProxyCommand=id@h:r", "ssh://a b@h/r", "h::r", "file://host/r", "file://", "file:///", "file:///a/../b",
		"https://h/\xff", "https://" + strings.Repeat("a/", 2000),
	} {
		if r, err := Parse(in); err == nil {
			t.Errorf("%q is taken for %s", in, r)
		} else if fault.Of(err).Code != "repo_url_invalid" {
			t.Errorf("%q: %v", in, err)
		}
	}
	if _, err := Parse("https://user:secret@h/../x"); strings.Contains(err.Error(), "secret") {
		t.Errorf("the error tells the password: %v", err)
	}
}

// FuzzParse checks the properties of parsed URLs that package gateway relies
// on.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"https://user:x@H.com:443/a/b.git/", "git@h:o/r", "ssh://git@h:23/~u/r", "file:///a/b.git", "http://[::1]:1/%41", "https://h/.git"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := Parse(s)
		if err != nil {
			return
		}
		u := r.String()
		for _, c := range []byte(u) {
			if c <= ' ' || c >= 0x7f || strings.IndexByte(`\?#`, c) >= 0 {
				t.Fatalf("%q gives %q", s, u)
			}
		}
		if strings.HasPrefix(r.host, "-") || strings.HasPrefix(r.user, "-") {
			t.Fatalf("%q gives an option: %q", s, u)
		}
		for part := range strings.SplitSeq(r.path, "/") {
			if part == "" || part == "." || part == ".." {
				t.Fatalf("%q gives the path %q", s, r.path)
			}
		}
		if again, err := Parse(u); err != nil || again != r {
			t.Fatalf("%q gives %q, which gives %+v, %v", s, u, again, err)
		}
		if again, err := ParsePath(r.Path()); err != nil || again != r {
			t.Fatalf("%q is served at %q, which gives %+v, %v", s, r.Path(), again, err)
		}
		if again, err := Parse(r.Key()); err != nil || again.host != r.host {
			t.Fatalf("%q has the key %q, which gives %+v, %v", s, r.Key(), again, err)
		}
	})
}

func FuzzParsePath(f *testing.F) {
	for _, s := range []string{"/https/h/a/b.git", "/ssh/git@h:23/r", "/file/a/b.git", "/http/[::1]:1/%41", "/https/h%3a1/r", "//", "/https/u%40v@h/r"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParsePath(s)
		if err != nil {
			return
		}
		if again, err := Parse(r.String()); err != nil || again != r {
			t.Fatalf("%q gives %q, which gives %+v, %v", s, r, again, err)
		}
	})
}
