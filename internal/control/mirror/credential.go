package mirror

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"aloft/internal/control/repourl"
	"aloft/internal/fault"
)

// Credential is a login for all repositories below a URL.
type Credential struct {
	URL      string // http or https URL; a prefix of whole path segments
	Username string // defaults to "x-access-token"; forges ignore it for tokens
	Token    string
	// Source replaces Token if the token changes over time, such as that of a
	// GitHub App. It is called for each use, concurrently, and returns the
	// current token. Its error is a fault for the person who started the run.
	Source func(ctx context.Context, repoURL string) (string, error)
}

// credential is a validated Credential, prepared for matching.
type credential struct {
	scheme, host    string
	segments        []string
	url             string // for messages
	username, token string
	source          func(ctx context.Context, repoURL string) (string, error)
}

func parseCredential(c Credential) (credential, error) {
	scheme, rest, ok := strings.Cut(c.URL, "://")
	scheme = strings.ToLower(scheme)
	if !ok || scheme != "http" && scheme != "https" {
		return credential{}, fmt.Errorf("git credential for %q: its url must begin with https:// or http://", repourl.WithoutPassword(c.URL))
	}
	authority, path, _ := strings.Cut(rest, "/")
	_, host, why := repourl.ParseAuthority(scheme, authority)
	if why == "" && strings.ContainsAny(rest, "?#") {
		why = "it has a query or a fragment"
	}
	var segments []string
	if why == "" {
		segments, why = repourl.ParseSegments(path)
	}
	if why != "" {
		return credential{}, fmt.Errorf("git credential for %q: %s", repourl.WithoutPassword(c.URL), why)
	}
	out := credential{scheme: scheme, host: host, segments: segments, username: c.Username, token: c.Token, source: c.Source}
	out.url = strings.Join(append([]string{scheme + "://" + host}, segments...), "/")
	if out.username == "" {
		out.username = "x-access-token"
	}
	// git's credential protocol is line based.
	if out.token == "" && out.source == nil || !oneLine(out.token+out.username) {
		return credential{}, fmt.Errorf("git credential for %s: its token is empty, or its name or token has a line break", out.url)
	}
	return out, nil
}

func oneLine(s string) bool { return !strings.ContainsAny(s, "\r\n\x00") }

// withCurrentToken returns the credential with its current token.
func (c *credential) withCurrentToken(ctx context.Context, r repourl.Repo) (*credential, error) {
	if c == nil || c.source == nil {
		return c, nil
	}
	token, err := c.source(ctx, r.String())
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err == nil && (token == "" || !oneLine(token)):
		err = fault.Denied("the token created for %s is empty, or has a line break", r).Named(CodeCredentialRefused)
	}
	fresh := *c
	fresh.token = token
	return &fresh, err
}

// noToken returns the fault for a fetch or push for which no token could be
// created.
func noToken(r repourl.Repo, err error) error {
	f := fault.Of(err)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, errClosed):
		return err
	case f.Kind == fault.KindUnavailable, f.Kind == fault.KindExhausted:
		return unreachable(r, "no token could be created for it: "+f.Message).Because(err)
	}
	return fault.Denied("no token could be created for %s: %s", r, f.Message).Named(CodeCredentialRefused).Hint("%s", f.Advice).Because(err)
}

// covers reports whether the credential applies to the repository. closeness is
// the number of path segments that match.
func (c *credential) covers(r repourl.Repo) (closeness int, ok bool) {
	path := strings.Split(r.Decoded(), "/")
	if c.scheme != r.Scheme() || c.host != r.Host() || len(c.segments) > len(path) {
		return 0, false
	}
	for i, s := range c.segments {
		if s != path[i] && !(i == len(path)-1 && repourl.TrimGit(s) == repourl.TrimGit(path[i])) {
			return 0, false
		}
	}
	return len(c.segments), true
}

// credentialFor returns the best matching credential for the repository, or
// nil.
func (s *Mirrors) credentialFor(r repourl.Repo) *credential {
	var best *credential
	most := -1
	for i := range s.credentials {
		if n, ok := s.credentials[i].covers(r); ok && n > most {
			best, most = &s.credentials[i], n
		}
	}
	return best
}

// Login returns the user name and token for a repository's server, or empty
// strings if none is configured. The error is a fault.
func (s *Mirrors) Login(ctx context.Context, r repourl.Repo) (username, token string, err error) {
	c, err := s.credentialFor(r).withCurrentToken(ctx, r)
	if c == nil || err != nil {
		return "", "", err
	}
	return c.username, c.token, nil
}

// helper is a git credential helper that reads the credential from the
// environment, so that the token appears in no argument, URL or file.
const helper = `!f() { test "$1" = get || exit 0; printf 'username=%s\npassword=%s\n' "$ALOFT_GIT_USERNAME" "$ALOFT_GIT_TOKEN"; }; f`

// environ returns the configuration and environment with which git uses the
// credential for its own host only. After a redirect to another host, git does
// not call the helper.
func (c *credential) environ() (config [][2]string, env []string) {
	if c == nil {
		return nil, nil
	}
	return [][2]string{{"credential." + c.scheme + "://" + c.host + ".helper", helper}},
		[]string{"ALOFT_GIT_USERNAME=" + c.username, "ALOFT_GIT_TOKEN=" + c.token}
}
