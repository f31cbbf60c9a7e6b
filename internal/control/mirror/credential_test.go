package mirror

import (
	"strings"
	"testing"

	"aloft/internal/control/repourl"
)

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
		r, err := repourl.Parse(repo)
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
