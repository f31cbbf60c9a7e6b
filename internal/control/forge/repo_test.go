package forge

import (
	"strings"
	"testing"

	"aloft/internal/fault"
)

func TestParseURL(t *testing.T) {
	for in, want := range map[string]string{
		"https://github.com/acme/widget.git":                "github.com/acme/widget",
		"https://GitHub.com:443/acme/widget/":               "github.com/acme/widget",
		"https://x-access-token:s3cret@github.com/acme/wid": "github.com/acme/wid",
		"http://localhost:3000/acme/widget":                 "localhost:3000/acme/widget",
		"git@gitlab.com:group/sub/widget.git":               "gitlab.com/group/sub/widget",
		"ssh://git@git.example.com:2222/acme/widget":        "git.example.com/acme/widget",
		"https://gitea.com/acme/gr%C3%BC%C3%9Fe":            "gitea.com/acme/grüße",
		"https://github.com/acme":                           "",
		"https://github.com/":                               "",
		"https://github.com/acme/../widget":                 "",
		"https://github.com/acme/a%2fb":                     "",
		"https://github.com/acme/a%3Fb":                     "",
		"https://github.com/acme/a%23b":                     "",
		"https://github.com/acme/a%25b":                     "",
		"https://github.com/acme/widget?x=1":                "",
		"file:///srv/git/widget":                            "",
		"ftp://github.com/acme/widget":                      "",
		"":                                                  "",
	} {
		r, err := ParseURL(in)
		if err != nil {
			if want != "" || fault.Is(err, fault.KindInternal) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%q: %v", in, err)
			}
			continue
		}
		if r.String() != want {
			t.Errorf("%q: %q, want %q", in, r, want)
		}
	}
}

func TestParsePullRequestURL(t *testing.T) {
	for in, want := range map[string]Repo{
		"https://github.com/acme/widget/pull/7":                        {"github.com", "acme/widget"},
		"https://github.com/acme/widget/pull/7/files#r1":               {"github.com", "acme/widget"},
		" https://github.com/acme/widget/pull/7?w=1 ":                  {"github.com", "acme/widget"},
		"https://gitlab.com/group/sub/widget/-/merge_requests/7":       {"gitlab.com", "group/sub/widget"},
		"https://gitlab.com/group/sub/widget/-/merge_requests/7/diffs": {"gitlab.com", "group/sub/widget"},
		"http://localhost:3000/acme/widget/pulls/7":                    {"localhost:3000", "acme/widget"},
		"https://github.com/acme/pull/pull/7":                          {"github.com", "acme/pull"},
		"https://github.com/acme/widget/pull/0":                        {},
		"https://github.com/acme/widget/pull/99999999999":              {},
		"https://github.com/acme/widget/pull/":                         {},
		"https://github.com/acme/widget/issues/7":                      {},
		"https://github.com/acme/pull/7":                               {},
		"https://u:p@github.com/acme/widget/pull/7":                    {},
		"javascript:alert(1)//acme/widget/pull/7":                      {},
		"https://github.com/acme/../widget/pull/7":                     {},
		"git@github.com:acme/widget/pull/7":                            {},
	} {
		r, n, err := ParsePullRequestURL(in)
		if err == nil && n != 7 || (err == nil) == want.IsZero() || r != want {
			t.Errorf("%q: %v %d, %v", in, r, n, err)
		}
	}
}

// FuzzParseURL checks that a parsed repository is safe in a request path, and
// that formatting and parsing it again returns the same repository.
func FuzzParseURL(f *testing.F) {
	for _, s := range []string{"https://github.com/a/b.git", "git@h:a/b/c", "ssh://git@h:22/a/b", "http://[::1]:80/a/%62", "https://h/a/b/-/merge_requests/7"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseURL(s)
		if err == nil {
			again, err := ParseURL("https://" + r.Host + "/" + r.Path)
			// If a name ends in .git twice, each parse removes one suffix.
			if !r.valid() || err == nil && again != r && !strings.HasSuffix(r.Path, ".git") {
				t.Errorf("%q: %+v, then %+v, %v", s, r, again, err)
			}
			if strings.Contains(r.Path, "..") && (strings.Contains("/"+r.Path+"/", "/../") || strings.Contains("/"+r.Path+"/", "/./")) {
				t.Errorf("%q: %+v climbs", s, r)
			}
		} else if fault.Is(err, fault.KindInternal) {
			t.Errorf("%q: %v", s, err)
		}
		r, n, err := ParsePullRequestURL(s)
		if err == nil && (!r.valid() || n < 1) {
			t.Errorf("%q: %+v %d", s, r, n)
		}
	})
}

func TestSet(t *testing.T) {
	one, two := Forge(nil), Forge(nil)
	s := Set{"github.com": one, "git.example.com:3000": two, "x.test:1": one, "x.test:2": two}
	for host, want := range map[string]string{"GitHub.com": "github.com", "git.example.com": "git.example.com:3000", "git.example.com:3000": "git.example.com:3000", "x.test": "", "evil.test": "", "": ""} {
		_, r, err := s.Find(Repo{host, "a/b"})
		if (err == nil) != (want != "") || err == nil && r.Host != want || err != nil && fault.Of(err).Code != CodeNotConfigured {
			t.Errorf("%q: %v, %v", host, r, err)
		}
	}
}
