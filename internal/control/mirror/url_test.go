package mirror

import (
	"strings"
	"testing"

	"aloft/internal/fault"
)

func TestParseURL(t *testing.T) {
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
		r, err := ParseURL(in)
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
		if r, err := ParseURL(in); err == nil {
			t.Errorf("%q is taken for %s", in, r)
		} else if fault.Of(err).Code != "repo_url_invalid" {
			t.Errorf("%q: %v", in, err)
		}
	}
	if _, err := ParseURL("https://user:secret@h/../x"); strings.Contains(err.Error(), "secret") {
		t.Errorf("the error tells the password: %v", err)
	}
}

// FuzzParseURL checks the properties of parsed URLs that package gateway relies
// on.
func FuzzParseURL(f *testing.F) {
	for _, s := range []string{"https://user:x@H.com:443/a/b.git/", "git@h:o/r", "ssh://git@h:23/~u/r", "file:///a/b.git", "http://[::1]:1/%41", "https://h/.git"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseURL(s)
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
		if again, err := ParseURL(u); err != nil || again != r {
			t.Fatalf("%q gives %q, which gives %+v, %v", s, u, again, err)
		}
		if again, err := ParsePath(r.Path()); err != nil || again != r {
			t.Fatalf("%q is served at %q, which gives %+v, %v", s, r.Path(), again, err)
		}
		if again, err := ParseURL(r.Key()); err != nil || again.host != r.host {
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
		if again, err := ParseURL(r.String()); err != nil || again != r {
			t.Fatalf("%q gives %q, which gives %+v, %v", s, r, again, err)
		}
	})
}

func TestValidRef(t *testing.T) {
	for name, want := range map[string]bool{
		"refs/heads/main": true, "refs/heads/a/b-c.d": true, "refs/tags/v1": true, "refs/heads/ü": true, "refs/heads/-x": true,
		"main": false, "refs/heads": false, "refs/heads/": false, "refs//x": false, "refs/heads/a..b": false, "refs/heads/a b": false,
		"refs/heads/.a": false, "refs/heads/a.lock": false, "refs/heads/a.lock/b": false, "refs/heads/a.": false, "refs/heads/a@{b": false,
		"refs/heads/a~1": false, "refs/heads/a^": false, "refs/heads/a:b": false, "refs/heads/a?": false, "refs/heads/a*": false,
		"refs/heads/a[": false, `refs/heads/a\b`: false, "refs/heads/a\x7f": false, "refs/heads/a\n": false, "refs/heads/a/../b": false,
		"refs/heads/" + strings.Repeat("a", 300): false,
	} {
		if got := ValidRef(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
	if ValidBranch("-x") || ValidBranch("HEAD") || !ValidBranch("aloft/x") {
		t.Error("branches")
	}
}

func TestCredentialFor(t *testing.T) {
	s := &Mirrors{}
	for _, u := range []string{"https://git.example.com", "https://git.example.com/team", "https://git.example.com/team/one.git", "https://git.example.com:8443/"} {
		c, err := parseCredential(Credential{URL: u, Token: "t"})
		if err != nil {
			t.Fatal(err)
		}
		s.credentials = append(s.credentials, c)
	}
	for repo, want := range map[string]string{
		"https://git.example.com/x":               "https://git.example.com",
		"https://git.example.com:443/x":           "https://git.example.com",
		"https://git.example.com/teams/x":         "https://git.example.com",
		"https://git.example.com/team/x":          "https://git.example.com/team",
		"https://git.example.com/team/one":        "https://git.example.com/team/one.git",
		"https://git.example.com/team/one.git":    "https://git.example.com/team/one.git",
		"https://git.example.com:8443/team/x":     "https://git.example.com:8443",
		"https://git.example.com.evil.org/team/x": "",
		"https://git.example.co/team/x":           "",
		"http://git.example.com/team/x":           "",
		"ssh://git@git.example.com/team/x":        "",
	} {
		r, err := ParseURL(repo)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if c := s.credentialFor(r); c != nil {
			got = c.url
		}
		if got != want {
			t.Errorf("%s: %q, want %q", repo, got, want)
		}
	}
	for _, c := range []Credential{{URL: "git.example.com", Token: "t"}, {URL: "ssh://h", Token: "t"}, {URL: "https://h"}, {URL: "https://h", Token: "a\nb"}, {URL: "https://h?x", Token: "t"}, {URL: "https://u:t0ken@h/..", Token: "t"}} {
		_, err := parseCredential(c)
		if err == nil || strings.Contains(err.Error(), "t0ken") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestClassify(t *testing.T) {
	r, err := ParseURL("https://h/r")
	if err != nil {
		t.Fatal(err)
	}
	cred := &credential{url: "https://h", token: "t0ken"}
	for stderr, want := range map[string]string{
		"fatal: Authentication failed for 'https://h/r/'":                                                        CodeCredentialRefused,
		"fatal: unable to access 'https://h/r/': The requested URL returned error: 403":                          CodeCredentialRefused,
		"git@h: Permission denied (publickey).\nfatal: Could not read from remote repository.":                   CodeCredentialRefused,
		"remote: Repository not found.\nfatal: repository 'https://h/r/' not found":                              CodeRepoNotFound,
		"remote: The project you were looking for could not be found or you don't have permission to view it.":   CodeRepoNotFound,
		"fatal: unable to access 'https://h/r/': Could not resolve host: h":                                      CodeUnreachable,
		"fatal: unable to access 'https://h/r/': Failed to connect to h port 443 after 1 ms: Connection refused": CodeUnreachable,
		"fatal: unable to access 'https://h/r/': SSL certificate problem: self-signed certificate":               CodeUnreachable,
		"Host key verification failed.\nfatal: Could not read from remote repository.":                           CodeUnreachable,
		"fatal: write error: No space left on device":                                                            CodeDiskFull,
		"": CodeUnreachable,
	} {
		err := classify(r, cred, stderr, &gitError{args: []string{"fetch"}, err: errTooMuch})
		if f := fault.Of(err); f.Code != want || f.Advice == "" {
			t.Errorf("%q: %s, %v", stderr, f.Code, err)
		}
	}
}
