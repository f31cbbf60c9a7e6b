package mirror

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"aloft/internal/fault"
)

// Repo names one repository in one way, however its users write it. Make it by
// [ParseURL] or [ParsePath]; the zero Repo names nothing.
//
// These count as one repository: the host in capitals or not, the scheme's
// usual port named or not, a slash at the end or not, needless percent-encoding
// or none, and, but for file, .git at the end or not. User-info is dropped, but
// for ssh, where the user is part of the name and a password is dropped. The
// path's case counts. What these rules cannot read as one plain repository is
// refused: dot segments, empty segments, encoded slashes, control characters,
// queries, fragments, other schemes.
type Repo struct {
	scheme string
	user   string // ssh only
	host   string // lower case, with the port unless it is the usual one; empty for file
	path   string // decoded, without slashes around it, .git as it was written
}

const maxURL = 2048 // bytes; far above what forges allow

var (
	hostPattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]*[a-z0-9])?$`)
	ip6Pattern  = regexp.MustCompile(`^\[[0-9a-f:.]+\]$`)
	userPattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)
	scpPattern  = regexp.MustCompile(`^(?:([^@/:]+)@)?([^@/:\[\]]+):([^:].*)$`)
)

var usualPort = map[string]string{"http": "80", "https": "443", "ssh": "22", "file": ""}

// ParseURL reads a URL with one of the schemes http, https, ssh and file, or
// ssh's short form user@host:path.
func ParseURL(s string) (Repo, error) {
	if len(s) > maxURL {
		return Repo{}, invalidURL(s[:64]+"…", "it is too long")
	}
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		m := scpPattern.FindStringSubmatch(s)
		if m == nil {
			return Repo{}, invalidURL(s, "it is no URL")
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

// ParsePath reads the path under which the gateway serves a repository,
// percent-encoded as it came: /https/host/path, /ssh/user@host:port/path or
// /file/path.
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
			return Repo{}, invalidURL(escaped, "its percent-encoding is broken")
		}
	}
	r, why := parse(scheme, authority, path)
	if why != "" {
		return Repo{}, invalidURL(escaped, why)
	}
	return r, nil
}

// parse makes a Repo of the parts, or says why it cannot.
func parse(scheme, authority, path string) (Repo, string) {
	r := Repo{scheme: scheme}
	if _, ok := usualPort[scheme]; !ok {
		return Repo{}, "its scheme is none of https, http, ssh and file"
	}
	if scheme == "file" {
		if authority != "" {
			return Repo{}, "a file URL has no host: file:///path"
		}
	} else {
		var why string
		if r.user, r.host, why = parseAuthority(scheme, authority); why != "" {
			return Repo{}, why
		}
	}
	segments, why := parseSegments(path)
	if why != "" {
		return Repo{}, why
	}
	if len(segments) == 0 {
		return Repo{}, "it names no repository"
	}
	r.path = strings.Join(segments, "/")
	return r, ""
}

func parseAuthority(scheme, authority string) (user, host, why string) {
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
				return "", "", "its port is no number from 1 to 65535"
			}
			port = strconv.FormatUint(n, 10)
		}
	}
	if !hostPattern.MatchString(host) && !ip6Pattern.MatchString(host) || strings.Contains(host, "..") {
		return "", "", "its host is no plain host name"
	}
	if port != "" && port != usualPort[scheme] {
		host += ":" + port
	}
	return user, host, ""
}

// parseSegments decodes a path. A slash at its end counts for nothing.
func parseSegments(escaped string) (segments []string, why string) {
	escaped = strings.Trim(escaped, "/")
	if escaped == "" {
		return nil, ""
	}
	for part := range strings.SplitSeq(escaped, "/") {
		s, err := url.PathUnescape(part)
		switch {
		case err != nil:
			return nil, "its percent-encoding is broken"
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
	return fault.Invalid("repository %q: %s", withoutPassword(s), why).Named("repo_url_invalid").
		Hint("write it as https://host/path, http://host/path, ssh://git@host/path or file:///path")
}

// withoutPassword drops what may be a secret from a URL that could not be read.
func withoutPassword(s string) string {
	if at := strings.LastIndexByte(s, '@'); at >= 0 {
		return "…" + s[at:]
	}
	return s
}

// Key is equal for equal repositories and for no others.
func (r Repo) Key() string {
	path := r.path
	if r.scheme != "file" {
		path = trimGit(path)
	}
	return r.join(path)
}

// String is the repository's URL, as git takes it; it holds no secret.
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

// Path is where the gateway serves the repository: the inverse of [ParsePath].
func (r Repo) Path() string {
	scheme, rest, _ := strings.Cut(r.String(), "://")
	return "/" + scheme + "/" + strings.TrimPrefix(rest, "/")
}

// Scheme is http, https, ssh or file.
func (r Repo) Scheme() string { return r.scheme }

// Host is the host, with its port unless that is the scheme's usual one.
func (r Repo) Host() string { return r.host }

// Web is the repository by https, where it is reached by ssh; the repository
// itself where that is the web already. Files have none.
func (r Repo) Web() (Repo, bool) {
	switch r.scheme {
	case "http", "https":
		return r, true
	case "ssh":
		return Repo{scheme: "https", host: r.Name(), path: r.path}, true
	}
	return Repo{}, false
}

// Name is the host without its port.
func (r Repo) Name() string {
	if i := strings.LastIndexByte(r.host, ':'); i >= 0 && !strings.HasSuffix(r.host, "]") {
		return r.host[:i]
	}
	return r.host
}

// SameElsewhere reports whether both names have the same host and path, whatever
// the protocol, its port and its user. Files are the same as nothing.
func (r Repo) SameElsewhere(o Repo) bool {
	return r.scheme != "file" && o.scheme != "file" && r.Name() == o.Name() && trimGit(r.path) == trimGit(o.path)
}

// Sibling is the repository that other names, reached as r is.
func (r Repo) Sibling(other Repo) Repo {
	return Repo{scheme: r.scheme, user: r.user, host: r.host, path: other.path}
}

// Below reports whether the repository is the one that prefix names, or below
// it: host, host/owner or host/owner/repository, with a scheme before it or not.
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
		if p != have[i] && !(i == len(have)-1 && trimGit(p) == trimGit(have[i])) {
			return false
		}
	}
	return true
}

// Owner is the first part of a path that has several: the person, organisation
// or group whose repository it is. "" where the server has none.
func (r Repo) Owner() string {
	owner, _, several := strings.Cut(r.path, "/")
	if !several {
		return ""
	}
	return owner
}

// trimGit drops .git from the end, unless nothing would be left of the name.
func trimGit(path string) string {
	short := strings.TrimSuffix(path, ".git")
	if short == "" || strings.HasSuffix(short, "/") {
		return path
	}
	return short
}
