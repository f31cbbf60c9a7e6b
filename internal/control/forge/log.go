package forge

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"syscall"
	"time"
	"unicode"

	"aloft/internal/fault"
)

// MaxLog is the maximum length of a log in bytes.
const MaxLog = 64 << 10

const (
	maxRawLog  = 4 * MaxLog      // bytes at the end of a log that are cleaned, including escape sequences to be removed
	maxLogRead = 512 << 20       // bytes; hosts send logs from the beginning
	logTimeout = 2 * time.Minute // timeout for reading one log
)

// Logged is a [Forge] whose CI jobs have logs that can be read.
type Logged interface {
	// Log returns the end of the log of a check that [Forge.Checks] returned, at
	// most [MaxLog] bytes of plain text: see [CleanLog]. The fault is
	// forge_unsupported if the host has no log of the check.
	Log(ctx context.Context, r Repo, c Check) ([]byte, error)
}

var (
	// escape matches a terminal's control sequences: CSI, the strings OSC, DCS,
	// SOS, PM and APC, and two-byte ones.
	escape = regexp.MustCompile("\x1b\\[[0-?]*[ -/]*[@-~]|\x1b[\\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\\\)?|\x1b[ -/]*[0-~]?")
	// stamp matches the timestamp at the beginning of each line in logs of
	// GitHub, Gitea and GitLab.
	stamp = regexp.MustCompile(`(?m)^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,9}Z (?:\d\d[OE][ +])?`)
)

// CleanLog returns the end of a log as plain text, at most [MaxLog] bytes and
// beginning with a whole line if there is one. It removes terminal control
// sequences, the times of lines and text that a carriage return overwrites, and
// replaces invalid UTF-8.
func CleanLog(raw []byte) []byte {
	s := strings.ToValidUTF8(string(raw[max(len(raw)-maxRawLog, 0):]), "\uFFFD")
	s = strings.ReplaceAll(s, "\r\n", "\n")
	var b strings.Builder
	for line := range strings.Lines(s) {
		line, ended := strings.CutSuffix(line, "\n")
		line = strings.TrimRight(escape.ReplaceAllString(line, ""), "\r")
		if i := strings.LastIndexByte(line, '\r'); i >= 0 {
			line = line[i+1:]
		}
		b.WriteString(line)
		if ended {
			b.WriteByte('\n')
		}
	}
	s = stamp.ReplaceAllString(strings.TrimPrefix(b.String(), "\uFEFF"), "")
	s = strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && unicode.IsControl(r) || isHidden(r) {
			return -1
		}
		return r
	}, s)
	if len(s) > MaxLog || len(raw) > maxRawLog {
		s = s[max(len(s)-MaxLog, 0):]
		if i := strings.IndexByte(s, '\n'); i >= 0 {
			s = s[i+1:]
		}
		s = strings.ToValidUTF8(s, "")
	}
	return []byte(s)
}

// Tail sends a request whose response is a text, and returns the end of it as
// [CleanLog] does. It follows redirects to other hosts, without the token,
// because hosts keep logs in object stores and redirect to signed addresses.
func (w *Wire) Tail(ctx context.Context, a Ask) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	client := w.client
	client.Timeout, client.CheckRedirect = 0, func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	res, token, err := w.send(ctx, &client, w.address(a.Path, a.Query), a)
	if err != nil {
		return nil, err
	}
	for hops := 0; res.StatusCode >= 300 && res.StatusCode < 400; hops++ {
		res.Body.Close()
		to, err := res.Location()
		if err != nil || hops == maxRedirects || to.Scheme != "https" && to.Scheme != w.base.Scheme {
			return nil, fault.Conflict("%s redirects the request for a log to an unusable address", a.Repo.Host).Named(CodeConflict)
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
		if err != nil {
			return nil, clean(unreachable(ctx, a.Repo, err), token)
		}
		req.Header.Set("User-Agent", "aloft")
		client.Transport = w.store(to)
		if res, err = client.Do(req); err != nil {
			return nil, clean(unreachable(ctx, a.Repo, err), token)
		}
	}
	defer res.Body.Close()
	if err := w.refused(a, res, token); err != nil {
		return nil, err
	}
	var end tail
	n, err := io.Copy(&end, io.LimitReader(res.Body, maxLogRead+1))
	switch {
	case err != nil:
		return nil, clean(unreachable(ctx, a.Repo, err), token)
	case n > maxLogRead:
		return nil, fault.Unavailable("the log at %s is larger than %d MiB", a.Repo.Host, maxLogRead>>20).Named(CodeUnsupported).Hint("read it on its page")
	}
	log := CleanLog(end)
	if len(token) >= minSecret {
		log = bytes.ReplaceAll(log, []byte(token), []byte("[token]"))
	}
	return log, nil
}

// tail keeps the last bytes written to it, a little more than maxRawLog.
type tail []byte

// Write implements [io.Writer].
func (t *tail) Write(p []byte) (int, error) {
	*t = append(*t, p...)
	if over := len(*t) - maxRawLog - 1; over > maxRawLog {
		*t = append((*t)[:0], (*t)[over:]...)
	}
	return len(p), nil
}

// store returns the transport for an address to which a host redirects. It
// refuses link-local addresses, where clouds serve credentials, and loopback
// addresses unless the host itself has a loopback address.
func (w *Wire) store(to *url.URL) http.RoundTripper {
	t, ok := w.client.Transport.(*http.Transport)
	if !ok {
		return w.client.Transport
	}
	if t.Proxy != nil {
		if proxy, err := t.Proxy(&http.Request{URL: to}); proxy != nil || err != nil {
			return t // the proxy's own rules apply
		}
	}
	t = t.Clone()
	t.DisableKeepAlives = true
	t.DialContext = (&net.Dialer{Timeout: dialTimeout, ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		ip := at.Addr().WithZone("").Unmap()
		if ip.IsLinkLocalUnicast() || ip.IsUnspecified() || ip.IsMulticast() || ip.IsLoopback() && !local(w.base) {
			return fmt.Errorf("logs cannot be read from %s", ip)
		}
		return nil
	}}).DialContext
	return t
}

// local reports whether the address is a loopback address.
func local(u *url.URL) bool {
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && ip.Unmap().IsLoopback()
}
