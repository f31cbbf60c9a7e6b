package checkout

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// Config is git's configuration for a whole machine: every remote is reached
// through the gateway.
type Config struct {
	Gateway        string   // http://127.0.0.1:26499, without a path
	RepoURLs       []string // of the run
	Hosts          []string // whose short ssh form leads to the gateway too
	AuthorName     string
	AuthorEmail    string
	LFS            bool   // git-lfs is in the machine
	CredentialFile string // absolute; what [Credential] returns is there; "" is none
}

// scpLike is the short form of an ssh URL: [user@]host:path.
var scpLike = regexp.MustCompile(`^(?:([^/@:\s]+)@)?([A-Za-z0-9.-]+):([^/].*|/[^/].*)$`)

var plainHost = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.-]*$`)

// Text is the configuration as git reads it. The gateway's path for a
// repository is /<scheme>/<rest of the URL>: https://h/o/r is /https/h/o/r.
//
// git rewrites a URL once and by the longest prefix, so that a rewritten URL
// (which begins with http:// again) is left as it is. The short ssh form is no
// scheme; it is known for the hosts of the run's repositories only, and so are
// files: those the agent names itself are the machine's own.
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
	entry("safe", "", "directory", "*") // the one tenant of the machine owns it all
	// Nothing may tidy up behind the agent's back, or outlive its command.
	entry("gc", "", "auto", "0")
	entry("maintenance", "", "auto", "false")
	entry("advice", "", "detachedHead", "false")
	// A gateway that went silent is given up in the end.
	entry("http", "", "lowSpeedLimit", "1")
	entry("http", "", "lowSpeedTime", "600")
	if c.LFS { // as git lfs install does; GIT_LFS_SKIP_SMUDGE decides whether files come by themselves
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

// Credential is the part of the configuration that holds the run's credential
// for the gateway, and is secret. An empty credential is none.
func Credential(gateway, credential string) (string, error) {
	if strings.ContainsFunc(credential, func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
		return "", errors.New("git credential: only printable ASCII without spaces can be one")
	}
	if credential == "" {
		return "", nil
	}
	return fmt.Sprintf("[http %s]\n\textraHeader = %s\n", quote(gateway+"/"), quote("Authorization: Bearer "+credential)), nil
}

// quote writes a value so that git reads it back unchanged.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
