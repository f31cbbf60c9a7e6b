package checkout

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// Config is the git configuration of a machine. It makes git reach every remote
// through the git gateway.
type Config struct {
	Gateway        string   // http://127.0.0.1:26499, without a path
	RepoURLs       []string // the run's repositories
	Hosts          []string // hosts whose short ssh form is rewritten too
	AuthorName     string
	AuthorEmail    string
	LFS            bool   // git-lfs is installed in the machine
	CredentialFile string // absolute path of the file with the text of [Credential]; "" for none
}

// scpLike is the short form of an ssh URL: [user@]host:path.
var scpLike = regexp.MustCompile(`^(?:([^/@:\s]+)@)?([A-Za-z0-9.-]+):([^/].*|/[^/].*)$`)

var plainHost = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.-]*$`)

// Text returns the configuration in git's format. The gateway's path for a
// repository is /<scheme>/<rest of the URL>: https://h/o/r becomes
// /https/h/o/r.
//
// git rewrites a URL only once, by the longest matching prefix. So a rewritten
// URL, which begins with http:// again, is not rewritten further. The short ssh
// form has no scheme, so it is rewritten only for the hosts of the run's
// repositories. File paths are not rewritten: they are in the machine.
func (c Config) Text() (string, error) {
	var b strings.Builder
	var err error
	entry := func(section, sub, key, value string) {
		if strings.ContainsAny(section+sub+key+value, "\n\r\x00") {
			err = errors.Join(err, fmt.Errorf("git config %s.%s: a line break in a value", section, key))
		}
		if sub != "" {
			fmt.Fprintf(&b, "[%s %s]\n", section, quote(sub))
		} else {
			fmt.Fprintf(&b, "[%s]\n", section)
		}
		fmt.Fprintf(&b, "\t%s = %s\n", key, quote(value))
	}
	rewrite := func(to, from string) { entry("url", c.Gateway+to, "insteadOf", from) }

	rewrite("/https/", "https://")
	rewrite("/http/", "http://")
	rewrite("/ssh/", "ssh://")
	seen := map[string]bool{}
	short := func(login string) {
		if !seen[login] {
			seen[login] = true
			rewrite("/ssh/"+login+"/", login+":")
		}
	}
	for _, repo := range c.RepoURLs {
		if u, e := url.Parse(repo); e == nil && u.Scheme == "file" {
			rewrite("/file"+u.Path, repo)
		} else if e == nil && u.Host != "" {
			short("git@" + u.Hostname())
		} else if m := scpLike.FindStringSubmatch(repo); m != nil {
			user := m[1]
			if user != "" {
				user += "@"
			}
			short(user + m[2])
		}
	}
	for _, host := range c.Hosts {
		if plainHost.MatchString(host) {
			short("git@" + host)
		}
	}
	name, email := c.AuthorName, c.AuthorEmail
	if name == "" {
		name = "Aloft"
	}
	if email == "" {
		email = "aloft@localhost"
	}
	entry("user", "", "name", name)
	entry("user", "", "email", email)
	entry("init", "", "defaultBranch", "main")
	entry("safe", "", "directory", "*") // all files belong to the machine's only user
	// Disable background maintenance, which would outlive the command that
	// started it.
	entry("gc", "", "auto", "0")
	entry("maintenance", "", "auto", "false")
	entry("advice", "", "detachedHead", "false")
	// Give up on a gateway that stops responding.
	entry("http", "", "lowSpeedLimit", "1")
	entry("http", "", "lowSpeedTime", "600")
	if c.LFS { // as git lfs install does; GIT_LFS_SKIP_SMUDGE controls automatic downloads
		entry("filter", "lfs", "clean", "git-lfs clean -- %f")
		entry("filter", "lfs", "smudge", "git-lfs smudge -- %f")
		entry("filter", "lfs", "process", "git-lfs filter-process")
		entry("filter", "lfs", "required", "true")
	}
	if c.CredentialFile != "" {
		entry("include", "", "path", c.CredentialFile)
	}
	return b.String(), err
}

// Credential returns the part of the configuration with the run's credential
// for the git gateway. It is secret. Without a credential it is empty.
func Credential(gateway, credential string) (string, error) {
	if strings.ContainsFunc(credential, func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
		return "", errors.New("git credential: must be printable ASCII without spaces")
	}
	if credential == "" {
		return "", nil
	}
	return fmt.Sprintf("[http %s]\n\textraHeader = %s\n", quote(gateway+"/"), quote("Authorization: Bearer "+credential)), nil
}

// quote quotes a value for git's configuration.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
