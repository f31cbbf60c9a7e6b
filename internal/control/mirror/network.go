package mirror

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"aloft/internal/control/repourl"
	"aloft/internal/fault"
)

// CodeAddressBlocked is the fault code for a git server whose address the
// network policy refuses.
const CodeAddressBlocked = "address_blocked"

// Network checks the servers of repositories without a configured credential,
// because anybody who may start an agent can name such a server.
type Network interface {
	// Resolve returns the addresses of a host that may be connected to. Its
	// error is a [fault.Error] if the policy refuses all of them.
	Resolve(ctx context.Context, host string) ([]netip.Addr, error)
}

const (
	resolveTimeout = 10 * time.Second
	maxRedirects   = 3
)

// route is how git connects to a repository's server.
type route struct {
	config [][2]string
	dial   string     // host:port to probe when git is silent
	pin    netip.Addr // address to which ssh must connect, if valid
}

// route returns how git connects to the repository's server, or a fault if it
// must not. Hosts for which the operator has configured a credential or an ssh
// host key may have any address. For every other host, route passes the
// addresses that the policy allows to git, so that git does not look up the
// name again and get other addresses.
func (s *Mirrors) route(ctx context.Context, r repourl.Repo) (route, error) {
	direct := route{dial: r.DialAddress()}
	if s.network == nil || s.Configured(ctx, r) {
		return direct, nil
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	host, port, err := net.SplitHostPort(direct.dial)
	if err != nil {
		return route{}, unreachable(r, "its URL has no usable host").Because(err)
	}
	addrs, err := s.network.Resolve(ctx, host)
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return route{}, fault.Invalid("repository %s %s", r, f.Message).Named(CodeAddressBlocked).
			Hint("an administrator can configure a credential for its host (`git.credentials`) or open the address (`outbound.open`)").Because(err)
	}
	if err != nil && s.proxied && r.Scheme() != "ssh" {
		return direct, nil // only the operator's proxy can resolve the name
	}
	if err != nil || len(addrs) == 0 {
		return route{}, unreachable(r, "its host name cannot be resolved").Because(err)
	}
	to := route{dial: net.JoinHostPort(addrs[0].String(), port)}
	if _, err := netip.ParseAddr(host); err == nil {
		return to, nil // the host is an address, so git looks up nothing
	}
	if r.Scheme() == "ssh" {
		to.pin = addrs[0]
		return to, nil
	}
	list := make([]string, len(addrs))
	for i, a := range addrs {
		list[i] = a.String()
		if a.Is6() {
			list[i] = "[" + list[i] + "]"
		}
	}
	to.config = [][2]string{{"http.curloptResolve", host + ":" + port + ":" + strings.Join(list, ",")}}
	return to, nil
}

// Configured reports whether the operator has named the repository's server: in
// a credential for the same scheme, host and port, or in the configuration of ssh.
func (s *Mirrors) Configured(ctx context.Context, r repourl.Repo) bool {
	if r.Scheme() == "ssh" {
		return s.knownToSSH(ctx, r)
	}
	for _, c := range s.credentials {
		if c.scheme == r.Scheme() && c.host == r.Host() {
			return true
		}
	}
	return false
}

// knownToSSH reports whether the operator has named the host to ssh.
func (s *Mirrors) knownToSSH(ctx context.Context, r repourl.Repo) bool {
	host, port, err := net.SplitHostPort(r.DialAddress())
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	return s.host.KnownToSSH(ctx, host, port)
}

// knownAs returns the name of a host in known_hosts files.
func knownAs(host, port string) string {
	if port == repourl.DefaultPort("ssh") {
		return host
	}
	return "[" + host + "]:" + port
}

// isRedirect reports whether git stopped because the server redirected it. Git
// follows no redirect itself.
func isRedirect(stderr string) bool {
	return strings.Contains(stderr, "The requested URL returned error: 30")
}

// follow returns the repository to which r's server redirects git. It follows
// redirects within the scheme, host and port of r, or from http to https on the
// usual ports of one host. Other redirects are faults, because they would
// bypass the policy and send a credential to another server.
func (m *Mirror) follow(ctx context.Context, r repourl.Repo) (repourl.Repo, error) {
	at := r
	for range maxRedirects {
		// git prints the redirect's header only in its trace.
		_, stderr, err := m.runOnce(ctx, at, invocation{
			args: []string{"ls-remote", "--quiet", "--", at.String(), "HEAD"},
			env:  []string{"GIT_TRACE_CURL=1", "GIT_TRACE_CURL_NO_DATA=1"},
		})
		if err == nil {
			return at, nil
		}
		if !isRedirect(stderr) {
			return repourl.Repo{}, err
		}
		if at, err = redirected(at, locationHeader(stderr)); err != nil {
			return repourl.Repo{}, err
		}
	}
	return repourl.Repo{}, unreachable(r, "its server redirects too often")
}

// locationHeader returns the value of the last Location header in a trace of
// git.
func locationHeader(trace string) (to string) {
	lines := bufio.NewScanner(strings.NewReader(trace))
	lines.Buffer(nil, maxStderr)
	for lines.Scan() {
		_, header, ok := strings.Cut(lines.Text(), "<= Recv header: ")
		if name, value, _ := strings.Cut(header, ":"); ok && strings.EqualFold(name, "Location") {
			to = strings.TrimSpace(value)
		}
	}
	return to
}

// redirected returns the repository to which a Location header from the server
// of at points.
func redirected(at repourl.Repo, to string) (repourl.Repo, error) {
	unusable := unreachable(at, "its server redirects to no repository")
	base, err := url.Parse(at.String() + "/info/refs")
	if err != nil {
		return repourl.Repo{}, unusable
	}
	u, err := base.Parse(to)
	if err != nil {
		return repourl.Repo{}, unusable
	}
	u.RawQuery, u.Fragment, u.User = "", "", nil
	repo, ok := strings.CutSuffix(u.String(), "/info/refs")
	next, err := repourl.Parse(repo)
	if !ok || err != nil {
		return repourl.Repo{}, unusable
	}
	upgrade := at.Scheme() == "http" && next.Scheme() == "https" && at.Host() == at.Name()
	if next.Host() != at.Host() || next.Scheme() != at.Scheme() && !upgrade {
		return repourl.Repo{}, fault.Invalid("repository %s has moved to another server: %s", at, next).Named("repo_url_invalid").
			Hint("use the new URL")
	}
	return next, nil
}

// movedTo returns the repository to which the server has redirected git since
// the start, or r if it has not.
func (m *Mirror) movedTo(r repourl.Repo) repourl.Repo {
	m.mu.Lock()
	defer m.mu.Unlock()
	if to, ok := m.moved[r.String()]; ok {
		return to
	}
	return r
}

func (m *Mirror) setMoved(r, to repourl.Repo) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.moved == nil {
		m.moved = map[string]repourl.Repo{}
	}
	if delete(m.moved, r.String()); to != r {
		m.moved[r.String()] = to
	}
}
