package forge

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"aloft/internal/control/repourl"
	"aloft/internal/fault"
)

// Repo names a repository on a host. Create it with [ParseURL] or
// [ParsePullRequestURL].
type Repo struct {
	Host string // lower case, without a default port: github.com, git.example.com:3000
	Path string // owner/name, in GitLab also group/subgroup/name; without .git
}

// ParseURL parses a git URL of a repository: https, http, ssh, or
// git@host:path. It uses the gateway's parser, so that a URL cannot mean one
// host to git and another to the forge. It drops the port of ssh, which says
// nothing about the web port; [Set.Find] then finds the host by its name.
func ParseURL(s string) (Repo, error) {
	m, err := repourl.Parse(s)
	if err != nil {
		return Repo{}, err
	}
	web, ok := m.Web()
	if !ok {
		return Repo{}, fault.Invalid("the repository is a folder of the server, not a repository of a forge").Named(CodeNotConfigured).
			Hint("pull requests need a repository at GitHub, GitLab or Gitea")
	}
	_, escaped, _ := strings.Cut(web.String(), "://")
	_, escaped, _ = strings.Cut(escaped, "/")
	path, err := url.PathUnescape(escaped)
	r := Repo{Host: web.Host(), Path: strings.TrimSuffix(path, ".git")}
	if err != nil || !r.valid() {
		return Repo{}, fault.Invalid("%s is not the URL of a repository", web.Host()).Named("repo_url_invalid").
			Hint("write it as https://host/owner/name")
	}
	return r, nil
}

// valid reports whether the names are valid for a repository. Request URLs are
// built from them, so names that are ambiguous in a URL are rejected.
func (r Repo) valid() bool {
	parts := strings.Split(r.Path, "/")
	return r.Host != "" && len(r.Path) <= 1024 && len(parts) >= 2 && len(parts) <= 24 && utf8.ValidString(r.Path) &&
		!slices.ContainsFunc(parts, func(p string) bool {
			return p == "" || p == "." || p == ".." || p == "-" || strings.ContainsAny(p, `\?#%`) || strings.ContainsFunc(p, unicode.IsControl)
		})
}

// Owner returns the path without the name.
func (r Repo) Owner() string { return r.Path[:max(strings.LastIndexByte(r.Path, '/'), 0)] }

// Name returns the last segment of the path.
func (r Repo) Name() string { return r.Path[strings.LastIndexByte(r.Path, '/')+1:] }

// String returns the name for people: github.com/owner/name, or the host if
// there is no path.
func (r Repo) String() string { return strings.TrimSuffix(r.Host+"/"+r.Path, "/") }

// IsZero reports whether r is the zero value.
func (r Repo) IsZero() bool { return r == Repo{} }

// Same reports whether both are the same repository. Names are not
// case-sensitive.
func (r Repo) Same(o Repo) bool {
	return strings.EqualFold(r.Host, o.Host) && strings.EqualFold(r.Path, o.Path)
}

const maxURL = 2048 // bytes

// pullURL matches the path of the page of a pull request, and of pages below
// it: owner/name/pull/7 (GitHub), owner/name/pulls/7 (Gitea),
// group/name/-/merge_requests/7 (GitLab; older versions without the dash).
var pullURL = regexp.MustCompile(`^/(.+?)/(?:pull|pulls|-/merge_requests|merge_requests)/([1-9][0-9]{0,8})(?:/.*)?$`)

// ParsePullRequestURL parses the address of a pull request's page, or of a page
// below it such as its files.
func ParsePullRequestURL(s string) (Repo, int, error) {
	bad := fault.Invalid("this is not the address of a pull request").Named("pr_resolution_failed").
		Hint("copy it from the browser, as in https://github.com/owner/name/pull/7")
	if len(s) > maxURL {
		return Repo{}, 0, bad
	}
	u, err := url.Parse(strings.TrimSpace(s))
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.User != nil {
		return Repo{}, 0, bad
	}
	m := pullURL.FindStringSubmatch(u.EscapedPath())
	if m == nil {
		return Repo{}, 0, bad
	}
	r, err := ParseURL(u.Scheme + "://" + u.Host + "/" + m[1])
	if err != nil {
		return Repo{}, 0, bad
	}
	number, err := strconv.Atoi(m[2])
	if err != nil {
		return Repo{}, 0, bad
	}
	return r, number, nil
}

// Kind is the kind of API that a host has.
type Kind string

// Kinds of APIs.
const (
	GitHub Kind = "github"
	GitLab Kind = "gitlab"
	Gitea  Kind = "gitea" // also Forgejo
)

// KindOf returns the kind of a well-known host. The kind of other hosts must be
// configured.
func KindOf(host string) (Kind, bool) {
	switch host {
	case "github.com":
		return GitHub, true
	case "gitlab.com":
		return GitLab, true
	case "codeberg.org", "gitea.com":
		return Gitea, true
	}
	return GitHub, strings.HasSuffix(host, ".ghe.com")
}

// Set holds the configured forges by host. It is safe for concurrent use once
// complete.
type Set map[string]Forge

// Find returns the forge of a repository, and the repository with the host as
// configured. If the host is configured with a port, Find also accepts the
// host's name without the port, as in ssh URLs.
func (s Set) Find(r Repo) (Forge, Repo, error) {
	r.Host = strings.ToLower(r.Host)
	if f, ok := s[r.Host]; ok {
		return f, r, nil
	}
	var found []string
	for host := range s {
		if hostname(host) == r.Host {
			found = append(found, host)
		}
	}
	if len(found) == 1 {
		r.Host = found[0]
		return s[r.Host], r, nil
	}
	return nil, r, fault.Invalid("no forge is configured for %s", cmp.Or(r.Host, "this repository")).Named(CodeNotConfigured).
		Hint("add its URL and a token to git.credentials in the configuration, with `forge: github`, `gitlab` or `gitea` where the host is your own")
}

// hostname returns the host without its port.
func hostname(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		return host[:i]
	}
	return host
}
