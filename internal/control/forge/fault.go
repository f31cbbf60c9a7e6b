package forge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"aloft/internal/fault"
)

// Codes of a forge's failures.
const (
	CodeNotConfigured = "integration_not_connected"
	CodeNoToken       = "forge_no_token"
	CodeUnauthorized  = "forge_unauthorized"
	CodeDenied        = "forge_denied"
	CodeNotFound      = "forge_not_found"
	CodeConflict      = "forge_conflict"
	CodeRefused       = "forge_refused"
	CodeRateLimited   = "forge_rate_limited"
	CodeUnreachable   = "forge_unreachable"
	CodeUnsupported   = "forge_unsupported"
)

// NotConfigured returns the fault for a server without a forge.
func NotConfigured() *fault.Error {
	return fault.Invalid("no forge is configured on this server").Named(CodeNotConfigured).Hint("add the host's URL and a token to git.credentials in the configuration")
}

const (
	maxWait  = 2 * time.Hour // longest wait; a rate limit with a longer wait counts as a refusal
	maxWords = 500           // maximum bytes of a host's message that are kept
)

// limited is the cause of a fault with the code forge_rate_limited.
type limited struct{ wait time.Duration }

func (l limited) Error() string { return fmt.Sprintf("asked to wait %v", l.wait) }

// RetryAfter returns how long a host asks to wait, if err is a rate limit.
func RetryAfter(err error) (time.Duration, bool) {
	l, ok := errors.AsType[limited](err)
	return l.wait, ok
}

// Retryable reports whether the same request may succeed later: the host was
// unreachable, failed, or asked to wait.
func Retryable(err error) bool {
	f := fault.Of(err)
	return err != nil && (f.Code == CodeRateLimited || f.Code == CodeUnreachable)
}

// Refusal returns the fault for an unsuccessful response to a request about the
// repository. words is the host's message, which is sanitized.
func Refusal(r Repo, status int, header http.Header, words string, now time.Time) *fault.Error {
	words = Line(words, maxWords)
	says := ""
	if words != "" {
		says = ": " + words
	}
	if wait, ok := waitOf(status, header, words, now); ok {
		return fault.Exhausted("%s asks to wait %v before the next request", r.Host, wait.Round(time.Second)).Named(CodeRateLimited).
			Hint("it is retried automatically, or give the host a token with a higher limit").Because(limited{wait})
	}
	switch {
	case status == http.StatusUnauthorized:
		return fault.Denied("%s does not accept the token configured for %s", r.Host, r).Named(CodeUnauthorized).
			Hint("create a new one and put it in git.credentials")
	case status == http.StatusForbidden:
		return fault.Denied("%s does not allow the token to do this to %s%s", r.Host, r.Path, says).Named(CodeDenied).
			Hint("it needs to write pull requests: GitHub: the scope repo, or write access to Pull requests and Contents, read access to Checks and Commit statuses, and for reviews write access to Commit statuses; GitLab: api; Gitea: write:repository and write:issue")
	case status == http.StatusNotFound || status == http.StatusGone:
		return fault.NotFound("%s cannot find this in %s, or the token has no access to it%s", r.Host, r.Path, says).Named(CodeNotFound).
			Hint("check the name, and that the token reaches the repository")
	case status == http.StatusConflict || status == http.StatusMethodNotAllowed || status == http.StatusNotAcceptable ||
		status == http.StatusPreconditionFailed || status == http.StatusLocked:
		return fault.Conflict("%s reports a conflict for %s%s", r.Host, r.Path, says).Named(CodeConflict).
			Hint("resolve it there, then try again")
	case status >= 300 && status < 400:
		return fault.Conflict("%s says that %s has moved", r.Host, r.Path).Named(CodeConflict).Hint("use the repository's new address")
	case status >= 400 && status < 500 && status != http.StatusRequestTimeout:
		return fault.Invalid("%s refuses the request for %s%s", r.Host, r.Path, says).Named(CodeRefused).
			Hint("change what it names, and try again")
	}
	return fault.Unavailable("%s responded with status %d%s", r.Host, status, says).Named(CodeUnreachable).Hint("it is retried automatically")
}

// waitOf returns how long a response asks to wait. GitHub responds with 403 or
// 429, with Retry-After for secondary limits and X-RateLimit-Reset for the
// primary one; GitLab with 429, Retry-After and RateLimit-Reset; Gitea with
// 429.
func waitOf(status int, h http.Header, words string, now time.Time) (time.Duration, bool) {
	spent := h.Get("X-RateLimit-Remaining") == "0" || h.Get("Retry-After") != "" || strings.Contains(strings.ToLower(words), "rate limit")
	if status != http.StatusTooManyRequests && (status != http.StatusForbidden || !spent) {
		return 0, false
	}
	wait := time.Minute // default, as GitHub recommends
	if s, err := strconv.ParseInt(strings.TrimSpace(h.Get("Retry-After")), 10, 32); err == nil {
		wait = time.Duration(s) * time.Second
	} else if at, err := http.ParseTime(h.Get("Retry-After")); err == nil {
		wait = at.Sub(now)
	} else {
		for _, name := range []string{"X-RateLimit-Reset", "RateLimit-Reset"} {
			if at, err := strconv.ParseInt(h.Get(name), 10, 64); err == nil && at > 0 && at < 1<<40 {
				wait = time.Unix(at, 0).Sub(now)
				break
			}
		}
	}
	return min(max(wait, time.Second), maxWait), true
}

// unreachable returns the fault for a request without a response. It keeps only
// the part of the cause that contains no URL.
func unreachable(ctx context.Context, r Repo, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return fault.Unavailable("%s could not be reached: %s", r.Host, Line(err.Error(), maxWords)).Named(CodeUnreachable).
		Hint("it is retried automatically; check the host's address, and the network of the server")
}
