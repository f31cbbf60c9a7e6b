package agents

import (
	"strings"
	"testing"
)

func TestRepoURL(t *testing.T) {
	for in, want := range map[string]string{
		"https://github.com/o/r.git": "https://github.com/o/r.git",
		"http://127.0.0.1:8080/r":    "http://127.0.0.1:8080/r",
		"ssh://git@h:22/o/r":         "ssh://git@h:22/o/r",
		"git@github.com:o/r.git":     "git@github.com:o/r.git",
		"github.com/o/r":             "https://github.com/o/r",
		"git.example.com:8443/o/r":   "https://git.example.com:8443/o/r",
		"file:///srv/git/../git/r":   "file:///srv/git/r",
		"":                           "",
		"r":                          "",
		"/srv/r":                     "",
		"-oProxyCommand=x":           "",
		"ext::sh -c x":               "",
		"ext::x":                     "",
		"::x":                        "",
		"https://user:secret@h/r":    "",
		"https://secret@h/r":         "",
		"ssh://u:secret@h/r":         "",
		"ssh://-oProxyCommand=x/r":   "",
		"https://h":                  "",
		"https:///r":                 "",
		"https://h/r?token=secret":   "",
		"https://h/r#secret":         "",
		"https://h/a b":              "",
		"https://h/\x00":             "",
		"https://secret%zz@h/r":      "",
		"ftp://h/r":                  "",
		"file://h/r":                 "",
		"file:///":                   "",
		"git@-x:r":                   "",
		"https://h/" + strings.Repeat("x", MaxRepoURL): "",
		"javascript://h/r":              "",
		"https://[::1]:8080/r":          "https://[::1]:8080/r",
		"HTTPS://h/r":                   "HTTPS://h/r",
		"github.com:o/r":                "",
		"git@host::ext":                 "",
		"user@host:~/r":                 "user@host:~/r",
		"file:///srv/%2e%2e/etc/passwd": "file:///etc/passwd",
	} {
		got, err := RepoURL(in, true)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("RepoURL(%q) = %q, %v; want %q", in, got, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error repeats a secret: %v", in, err)
		}
	}
	if _, err := RepoURL("file:///srv/r", false); err == nil {
		t.Error("file:// was accepted where it is not allowed")
	}
}
