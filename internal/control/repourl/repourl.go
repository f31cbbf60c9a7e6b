// Package repourl parses the URLs of git repositories, and compares the
// repositories that they name.
package repourl

import (
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"aloft/internal/fault"
)

// Repo is the canonical name of a repository, independent of how users spell
// it. Create it with [Parse] or [ParsePath]; the zero Repo is invalid.
//
// These differences are ignored: upper case in the host, the scheme's default
// port, a trailing slash, needless percent-encoding and, except for file URLs,
// a .git suffix. User info is dropped, except for ssh, where the user is part
// of the name and only a password is dropped. The path is case-sensitive.
// Everything else that is not a plain repository URL is refused: dot segments,
// empty segments, encoded slashes, control characters, queries, fragments and
// other schemes.
type Repo struct {
	scheme string
	user   string // ssh only
	host   string // lower case, without a default port; empty for file
	path   string // decoded, without surrounding slashes, with .git as written
}

const maxURL = 2048 // bytes; far above the limits of forges

var (
	hostPattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]*[a-z0-9])?$`)
	ip6Pattern  = regexp.MustCompile(`^\[[0-9a-f:.]+\]$`)
	userPattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)
	scpPattern  = regexp.MustCompile(`^(?:([^@/:]+)@)?([^@/:\[\]]+):([^:].*)$`)
)

var defaultPorts = map[string]string{"http": "80", "https": "443", "ssh": "22", "file": ""}

// DefaultPort returns the port of a scheme, and "" for the scheme file.
func DefaultPort(scheme string) string { return defaultPorts[scheme] }

// Parse parses a URL with scheme http, https, ssh or file, or the ssh short
// form user@host:path.
func Parse(s string) (Repo, error) {
	if len(s) > maxURL {
		return Repo{}, invalidURL(s[:64]+"…", "it is too long")
	}
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		m := scpPattern.FindStringSubmatch(s)
		if m == nil {
			return Repo{}, invalidURL(s, "it is not a URL")
		}
		scheme, rest = "ssh", m[2]+"/"+strings.TrimPrefix(m[3], "/")
		if m[1] != "" {
			rest = m[1] + "@" + rest
		}
	}
	if strings.ContainsAny(rest, "?#") {
		return Repo{}, invalidURL(s, "it has a query or a fragment")
	}
	authority, path, _ := strings.Cut(rest, "/")
	r, why := parse(strings.ToLower(scheme), authority, path)
	if why != "" {
		return Repo{}, invalidURL(s, why)
	}
	return r, nil
}

// ParsePath parses the percent-encoded path at which the gateway serves a
// repository: /https/host/path, /ssh/user@host:port/path or /file/path.
func ParsePath(escaped string) (Repo, error) {
	if len(escaped) > maxURL {
		return Repo{}, invalidURL(escaped[:64]+"…", "it is too long")
	}
	scheme, rest, ok := strings.Cut(strings.TrimPrefix(escaped, "/"), "/")
	if !ok {
		return Repo{}, invalidURL(escaped, "it names no repository")
	}
	authority, path := "", rest
	if scheme != "file" {
		authority, path, _ = strings.Cut(rest, "/")
		var err error
		if authority, err = url.PathUnescape(authority); err != nil {
			return Repo{}, invalidURL(escaped, "its percent-encoding is invalid")
		}
	}
	r, why := parse(scheme, authority, path)
	if why != "" {
		return Repo{}, invalidURL(escaped, why)
	}
	return r, nil
}

// parse builds a Repo from its parts. On failure it returns the reason.
func parse(scheme, authority, path string) (Repo, string) {
	r := Repo{scheme: scheme}
	if _, ok := defaultPorts[scheme]; !ok {
		return Repo{}, "its scheme is none of https, http, ssh and file"
	}
	if scheme == "file" {
		if authority != "" {
			return Repo{}, "a file URL has no host: file:///path"
		}
	} else {
		var why string
		if r.user, r.host, why = ParseAuthority(scheme, authority); why != "" {
			return Repo{}, why
		}
	}
	segments, why := ParseSegments(path)
	if why != "" {
		return Repo{}, why
	}
	if len(segments) == 0 {
		return Repo{}, "it names no repository"
	}
	r.path = strings.Join(segments, "/")
	return r, ""
}

// ParseAuthority parses the part of a URL between its scheme and its path. host is
// in lower case, without the scheme's default port. user is "" unless the scheme is
// ssh. why is "" if the authority is valid.
func ParseAuthority(scheme, authority string) (user, host, why string) {
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, _, _ = strings.Cut(authority[:at], ":")
		authority = authority[at+1:]
	}
	if scheme != "ssh" {
		user = ""
	}
	if user != "" && !userPattern.MatchString(user) {
		return "", "", "its user is not a plain name"
	}
	host, port := strings.ToLower(authority), ""
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		host, port = host[:i], host[i+1:]
		if port != "" {
			n, err := strconv.ParseUint(port, 10, 16)
			if err != nil || n == 0 || port[0] == '+' {
				return "", "", "its port is not a number from 1 to 65535"
			}
			port = strconv.FormatUint(n, 10)
		}
	}
	if !hostPattern.MatchString(host) && !ip6Pattern.MatchString(host) || strings.Contains(host, "..") {
		return "", "", "its host is not a plain host name"
	}
	if port != "" && port != defaultPorts[scheme] {
		host += ":" + port
	}
	return user, host, ""
}

// ParseSegments decodes the segments of a path. It ignores a trailing slash. why is
// "" if the path is valid.
func ParseSegments(escaped string) (segments []string, why string) {
	escaped = strings.Trim(escaped, "/")
	if escaped == "" {
		return nil, ""
	}
	for part := range strings.SplitSeq(escaped, "/") {
		s, err := url.PathUnescape(part)
		switch {
		case err != nil:
			return nil, "its percent-encoding is invalid"
		case s == "" || s == "." || s == "..":
			return nil, "its path has an empty or a dot segment"
		case strings.ContainsAny(s, `/\`):
			return nil, "its path has a slash in a name"
		case !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl):
			return nil, "its path has a control character"
		}
		segments = append(segments, s)
	}
	return segments, ""
}

func invalidURL(s, why string) error {
	return fault.Invalid("repository %q: %s", WithoutPassword(s), why).Named("repo_url_invalid").
		Hint("write it as https://host/path, http://host/path, ssh://git@host/path or file:///path")
}

// WithoutPassword removes possible secrets from an invalid URL.
func WithoutPassword(s string) string {
	if at := strings.LastIndexByte(s, '@'); at >= 0 {
		return "…" + s[at:]
	}
	return s
}

// Key returns a string that is equal for equal repositories only.
func (r Repo) Key() string {
	path := r.path
	if r.scheme != "file" {
		path = TrimGit(path)
	}
	return r.join(path)
}

// String returns the repository's URL for git, without secrets.
func (r Repo) String() string { return r.join(r.path) }

func (r Repo) join(path string) string {
	var b strings.Builder
	b.WriteString(r.scheme + "://")
	if r.user != "" {
		b.WriteString(r.user + "@")
	}
	b.WriteString(r.host)
	for s := range strings.SplitSeq(path, "/") {
		b.WriteString("/" + url.PathEscape(s))
	}
	return b.String()
}

// Path returns the path at which the gateway serves the repository: the inverse
// of [ParsePath].
func (r Repo) Path() string {
	scheme, rest, _ := strings.Cut(r.String(), "://")
	return "/" + scheme + "/" + strings.TrimPrefix(rest, "/")
}

// Scheme returns http, https, ssh or file.
func (r Repo) Scheme() string { return r.scheme }

// Host returns the host, with its port unless that is the scheme's default.
func (r Repo) Host() string { return r.host }

// User returns the user of a repository that is reached by ssh, or "".
func (r Repo) User() string { return r.user }

// Decoded returns the path without percent-encoding and surrounding slashes.
func (r Repo) Decoded() string { return r.path }

// DialAddress returns host:port, with the scheme's default port if the URL has
// none.
func (r Repo) DialAddress() string {
	if _, _, err := net.SplitHostPort(r.host); err == nil {
		return r.host
	}
	return net.JoinHostPort(strings.Trim(r.host, "[]"), defaultPorts[r.scheme])
}

// Web returns the https form of a repository that is reached by ssh, or the
// repository itself if it is reached by http or https. It returns false for a
// file URL.
func (r Repo) Web() (Repo, bool) {
	switch r.scheme {
	case "http", "https":
		return r, true
	case "ssh":
		return Repo{scheme: "https", host: r.Name(), path: r.path}, true
	}
	return Repo{}, false
}

// Name returns the host without its port.
func (r Repo) Name() string {
	if i := strings.LastIndexByte(r.host, ':'); i >= 0 && !strings.HasSuffix(r.host, "]") {
		return r.host[:i]
	}
	return r.host
}

// SameElsewhere reports whether both names have the same host and path,
// regardless of protocol, port and user. It returns false for file URLs.
func (r Repo) SameElsewhere(o Repo) bool {
	return r.scheme != "file" && o.scheme != "file" && r.Name() == o.Name() && TrimGit(r.path) == TrimGit(o.path)
}

// Sibling returns other with the protocol, port and user of r.
func (r Repo) Sibling(other Repo) Repo {
	return Repo{scheme: r.scheme, user: r.user, host: r.host, path: other.path}
}

// Below reports whether prefix names the repository or a folder above it. The
// prefix is host, host/owner or host/owner/repository, with or without a
// scheme.
func (r Repo) Below(prefix string) bool {
	if scheme, rest, ok := strings.Cut(prefix, "://"); ok {
		if !strings.EqualFold(scheme, r.scheme) {
			return false
		}
		prefix = rest
	}
	parts := strings.Split(strings.Trim(prefix, "/"), "/")
	have := strings.Split(r.path, "/")
	if host := strings.ToLower(parts[0]); host != r.host && host != r.Name() || len(parts)-1 > len(have) {
		return false
	}
	for i, p := range parts[1:] {
		if p != have[i] && !(i == len(have)-1 && TrimGit(p) == TrimGit(have[i])) {
			return false
		}
	}
	return true
}

// Owner returns the first segment of a path with several segments: the user,
// organisation or group that owns the repository. It returns "" if there is
// only one segment.
func (r Repo) Owner() string {
	owner, _, several := strings.Cut(r.path, "/")
	if !several {
		return ""
	}
	return owner
}

// TrimGit removes a .git suffix, unless the name is only that suffix.
func TrimGit(path string) string {
	short := strings.TrimSuffix(path, ".git")
	if short == "" || strings.HasSuffix(short, "/") {
		return path
	}
	return short
}
