package agents

import (
	"net/url"
	"path"
	"regexp"
	"strings"
	"unicode"

	"aloft/internal/fault"
)

// MaxRepoURL is the maximum length of a repository's URL, in bytes.
const MaxRepoURL = 2048

var (
	scpLike   = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*@[A-Za-z0-9][A-Za-z0-9.-]*:[^:].*$`)
	bareHost  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]*(\.[A-Za-z0-9-]+)+(:[0-9]+)?/[^/].*$`)
	remoteExt = regexp.MustCompile(`^[A-Za-z0-9+.-]*::`)
	refChars  = regexp.MustCompile(`^[^\x00-\x20\x7f~^:?*\[\\]+$`)
)

// ValidRef applies git's rules for ref names that prevent a name from being
// read as an option, a range, or a path outside of the folder.
func ValidRef(ref string) bool {
	return len(ref) <= 255 && refChars.MatchString(ref) && !strings.HasPrefix(ref, "-") &&
		!strings.HasPrefix(ref, "/") && !strings.HasSuffix(ref, "/") && !strings.HasSuffix(ref, ".lock") &&
		!strings.Contains(ref, "..") && !strings.Contains(ref, "@{") && !strings.Contains(ref, "//")
}

// RepoURL returns the stored form of a repository's URL. Its errors never
// repeat the URL, which may contain a secret.
func RepoURL(raw string, allowFile bool) (string, error) {
	switch {
	case raw == "":
		return "", fault.Invalid("is required")
	case len(raw) > MaxRepoURL:
		return "", fault.Invalid("is longer than %d bytes", MaxRepoURL)
	case strings.ContainsFunc(raw, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }):
		return "", fault.Invalid("contains white space or control characters")
	case strings.HasPrefix(raw, "-"), remoteExt.MatchString(raw):
		return "", fault.Invalid("is not a repository's URL").Hint(urlForms)
	case strings.Contains(raw, "://"):
		return checkURL(raw, allowFile)
	case scpLike.MatchString(raw):
		return raw, nil
	case bareHost.MatchString(raw):
		return checkURL("https://"+raw, allowFile)
	}
	return "", fault.Invalid("is not a repository's URL").Hint(urlForms)
}

const urlForms = "use https://, http://, ssh:// or git@host:path"

func checkURL(raw string, allowFile bool) (string, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return "", fault.Invalid("is not a URL").Hint(urlForms) // err would repeat the URL
	}
	scheme := strings.ToLower(u.Scheme)
	_, password := u.User.Password()
	switch {
	case scheme != "https" && scheme != "http" && scheme != "ssh" && scheme != "file":
		return "", fault.Invalid("the scheme %s is not accepted", fault.Quoted(u.Scheme)).Hint(urlForms)
	case password, u.User != nil && scheme != "ssh":
		return "", fault.Invalid("contains credentials").Hint("put credentials in the server's configuration, under git.credentials")
	case u.RawQuery != "", u.Fragment != "":
		return "", fault.Invalid("must not have a query or a fragment")
	case strings.HasPrefix(u.Hostname(), "-"):
		return "", fault.Invalid("has an invalid host")
	case scheme == "file":
		return checkFile(u, allowFile)
	case u.Hostname() == "":
		return "", fault.Invalid("has no host")
	case strings.Trim(u.Path, "/") == "":
		return "", fault.Invalid("has no repository path")
	}
	return raw, nil
}

func checkFile(u *url.URL, allow bool) (string, error) {
	switch {
	case !allow:
		return "", fault.Invalid("file:// repositories are not allowed on this server").
			Hint("git.allow_file in its configuration names the folders whose repositories may be used")
	case u.Host != "" && u.Host != "localhost":
		return "", fault.Invalid("must not have a host: write file:///path")
	case !path.IsAbs(u.Path) || path.Clean(u.Path) == "/":
		return "", fault.Invalid("must have an absolute path: write file:///path")
	}
	return "file://" + (&url.URL{Path: path.Clean(u.Path)}).EscapedPath(), nil
}
