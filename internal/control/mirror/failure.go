package mirror

import (
	"context"
	"encoding/base64"
	"errors"
	"os/exec"
	"strings"
	"unicode"

	"aloft/internal/control/confine"
	"aloft/internal/control/repourl"
	"aloft/internal/fault"
)

// Fault codes of this package, in addition to those of package fault.
const (
	CodeRepoNotFound      = "repo_not_found"
	CodeCredentialRefused = "credential_refused"
	CodeUnreachable       = "repo_unreachable"
	CodeRefNotFound       = "ref_not_found"
	CodeBranchTaken       = "branch_taken"
	CodeDiskFull          = "disk_full"
	CodeMirrorForeign     = "mirror_not_writable"
	CodeSecretInPush      = "secret_in_push"
)

var (
	errTooSlow      = errors.New("it took too long")
	errNoConnection = errors.New("no connection")
	errClosed       = errors.New("the mirrors are closed")
)

// Messages of git and the programs that it runs, in the C locale and lower
// case. The first match wins.
var (
	saysDiskFull = []string{"no space left on device", "disk quota exceeded"}
	saysRefused  = []string{
		"authentication failed", "could not read username", "could not read password", "returned error: 401", "returned error: 403",
		"permission denied (", "invalid username or", "access denied", "http basic: ",
	}
	saysNotFound = []string{
		"returned error: 404", "repository not found", "not found", "does not appear to be a git repository",
		"does not exist", "no such file or directory", "could not be found", "not valid: is this a git repository",
	}
	saysHostKey = []string{"host key verification failed"}
)

// classify turns a failed command that talked to the repository's server into a
// fault.
func classify(r repourl.Repo, cred *credential, stderr string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, errClosed) {
		return err
	}
	say := strings.ToLower(stderr)
	switch {
	case isTooManyRefs(err):
		return tooManyRefsIn(r, err)
	case errors.Is(err, errNoConnection), errors.Is(err, errTooSlow):
		return unreachable(r, errors.Unwrap(err).Error()).Because(err)
	case hasAny(say, saysDiskFull):
		return fault.Exhausted("no space left on the server's disk for a mirror of %s", r).Named(CodeDiskFull).
			Hint("free space below the server's data folder").Because(err)
	case hasAny(say, saysRefused):
		return refused(r, cred).Because(err)
	case hasAny(say, saysHostKey):
		return unreachable(r, "its ssh host key is not known to the server").
			Hint("add the host's key to the known_hosts of the user that starts the server").Because(err)
	case hasAny(say, saysNotFound):
		f := fault.NotFound("repository %s was not found", r).Named(CodeRepoNotFound).Because(err)
		if cred == nil {
			return f.Hint("check the URL; if it is private, give a credential for it under git.credentials in the server's configuration")
		}
		return f.Hint("check the URL, and whether the credential configured for %s may read it", cred.url)
	}
	why := upstreamWords(stderr)
	if !hasEnded(err) && why == "" {
		why = "the server could not run git"
	}
	return unreachable(r, why).Because(err)
}

func refused(r repourl.Repo, cred *credential) *fault.Error {
	switch {
	case cred != nil:
		return fault.Denied("%s refused the credential configured for %s", r.Host(), cred.url).Named(CodeCredentialRefused).
			Hint("renew the token of the entry %q under git.credentials in the server's configuration, and see that it may use %s", cred.url, r)
	case r.Scheme() == "ssh":
		return fault.Denied("%s refused the server's ssh key", r.Host()).Named(CodeCredentialRefused).
			Hint("give the user that starts the server a key that may use %s, or use an https URL", r)
	}
	return fault.Denied("%s asks for a credential for %s, and none is configured", r.Host(), r).Named(CodeCredentialRefused).
		Hint("add an entry with url %s://%s, username and token under git.credentials in the server's configuration", r.Scheme(), r.Host())
}

func unreachable(r repourl.Repo, why string) *fault.Error {
	if why == "" {
		why = "git gave no reason"
	}
	return fault.Unavailable("repository %s could not be reached: %s", r, why).Named(CodeUnreachable).
		Hint("check the URL and the network of the server, then try again")
}

func hasAny(s string, any []string) bool {
	for _, a := range any {
		if strings.Contains(s, a) {
			return true
		}
	}
	return false
}

// upstreamWords returns the most informative line of stderr, suitable for one
// sentence.
func upstreamWords(stderr string) string {
	best := ""
	for line := range strings.Lines(stderr) {
		line = Plain(strings.TrimSpace(line))
		if rest, ok := strings.CutPrefix(line, "fatal: "); ok {
			return rest
		}
		if line != "" {
			best = line
		}
	}
	return best
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return Plain(s[strings.LastIndexByte(s, '\n')+1:])
}

const maxLine = 500

// Plain makes one line of untrusted text safe for a terminal: it removes
// control characters and truncates long lines.
func Plain(line string) string {
	line = strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case unicode.IsControl(r), r == unicode.ReplacementChar:
			return -1
		}
		return r
	}, line)
	if r := []rune(line); len(r) > maxLine {
		return string(r[:maxLine]) + "…"
	}
	return line
}

// redact removes the token from a server's message.
func (c *credential) redact(s string) string {
	if c == nil {
		return s
	}
	basic := base64.StdEncoding.EncodeToString([]byte(c.username + ":" + c.token))
	return strings.NewReplacer(c.token, "[token]", basic, "[token]").Replace(s)
}

// hasEnded reports whether the error comes from a command that ran and has
// ended.
func hasEnded(err error) bool {
	_, here := errors.AsType[*exec.ExitError](err)
	_, elsewhere := errors.AsType[*confine.ExitError](err)
	return here || elsewhere
}
