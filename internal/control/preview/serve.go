package preview

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"regexp"
	"strconv"
	"strings"
	"time"

	"aloft/internal/fault"
)

// Handler serves previews at their host names, and passes all other host names
// to next.
func (p *Previews) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		label, ours := p.label(r.Host)
		if !ours {
			next.ServeHTTP(w, r)
			return
		}
		agentID, port, ok := parseLabel(label)
		if !ok {
			say(w, http.StatusNotFound, "There is no preview of this name.")
			return
		}
		p.serve(w, r, agentID, port)
	})
}

// label returns the part of a host name before the domain. ours is true for the
// domain itself and all names below it.
func (p *Previews) label(host string) (label string, ours bool) {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if host == p.host {
		return "", true
	}
	return strings.CutSuffix(host, "."+p.host)
}

var labelForm = regexp.MustCompile(`^([1-9][0-9]{0,4})-(bc-[0-9a-f-]{36})$`)

// parseLabel parses PORT-AGENT.
func parseLabel(label string) (agentID string, port uint16, ok bool) {
	m := labelForm.FindStringSubmatch(label)
	if m == nil {
		return "", 0, false
	}
	n, err := strconv.ParseUint(m[1], 10, 16)
	return m[2], uint16(n), err == nil
}

// say sends a message of the server itself, with headers that keep pages from
// using it.
func say(w http.ResponseWriter, status int, words string) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	w.WriteHeader(status)
	_, _ = fmt.Fprintln(w, words) // ignore errors: the client has disconnected
}

func (p *Previews) serve(w http.ResponseWriter, r *http.Request, agentID string, port uint16) {
	if r.URL.Path == signInPath {
		p.signIn(w, r, agentID, port)
		return
	}
	if !p.fromHere(r) {
		say(w, http.StatusForbidden, "A page of another origin can link to a preview but not use it.")
		return
	}
	s, ok := p.sessionOf(r, agentID, port)
	if !ok {
		say(w, http.StatusUnauthorized, fmt.Sprintf("Sign in to see this: aloft agent preview %s %d", agentID, port))
		return
	}
	if err := p.conf.May(r.Context(), s.Key, agentID); err != nil {
		p.refuse(w, err)
		return
	}
	ctx, cancel := context.WithDeadline(r.Context(), s.Expires) // cancelling also ends WebSockets
	defer cancel()
	p.proxy.ServeHTTP(w, r.WithContext(context.WithValue(ctx, target{}, net.JoinHostPort(agentID, strconv.Itoa(int(port))))))
}

// target is the context key for a request's AGENT:PORT.
type target struct{}

// refuse replies to a request whose key lacks permission, without details.
func (p *Previews) refuse(w http.ResponseWriter, err error) {
	if f, ok := errors.AsType[*fault.Error](err); ok && f.Kind != fault.KindInternal {
		say(w, http.StatusForbidden, "You do not have access to this preview.")
		return
	}
	p.conf.Logger.Error("cannot check access to a preview", "error", err)
	say(w, http.StatusInternalServerError, "The server cannot check whether you have access.")
}

// signIn exchanges a code for a session cookie.
func (p *Previews) signIn(w http.ResponseWriter, r *http.Request, agentID string, port uint16) {
	if r.Method != http.MethodGet {
		say(w, http.StatusMethodNotAllowed, "Sign in with GET.")
		return
	}
	s, ok := p.codes.redeem(r.URL.Query().Get("code"))
	if !ok || s.AgentID != agentID || s.Port != port {
		say(w, http.StatusUnauthorized, fmt.Sprintf("This link was already used or has expired. For a new one: aloft agent preview %s %d", agentID, port))
		return
	}
	s.Expires = time.Now().Add(sessionTTL)
	value, err := p.sealed(s)
	if err != nil {
		p.refuse(w, err)
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: p.cookieName(), Value: value, Path: "/", MaxAge: int(sessionTTL / time.Second),
		HttpOnly: true, Secure: p.conf.HTTPS, SameSite: http.SameSiteLaxMode,
	})
	w.Header().Set("Location", "/")
	say(w, http.StatusSeeOther, "Signed in.")
}

// fromHere reports whether a request comes from the preview itself or from the
// user, or is only a navigation. This check is needed because cookies alone do
// not separate previews: all previews are the same site.
func (p *Previews) fromHere(r *http.Request) bool {
	h := r.Header
	if origin := h.Get("Origin"); origin != "" && !strings.EqualFold(origin, p.scheme()+"://"+r.Host) {
		return false
	}
	switch h.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return true
	}
	leads := h.Get("Sec-Fetch-Mode") == "navigate" && h.Get("Sec-Fetch-Dest") == "document"
	return leads && (r.Method == http.MethodGet || r.Method == http.MethodHead)
}

// rewrite prepares the request for the machine.
func (p *Previews) rewrite(r *httputil.ProxyRequest) {
	r.Out.URL.Scheme = "http"
	r.Out.URL.Host, _ = r.In.Context().Value(target{}).(string)
	r.Out.Host = r.In.Host // programs compare the Host header with the Origin header
	h := r.Out.Header
	r.SetXForwarded()
	h.Set("X-Forwarded-Proto", p.scheme())
	h.Del("X-Real-Ip")
	dropCookies(h)
	// Do not forward an API key that was sent here by mistake.
	if strings.Contains(h.Get("Authorization"), "aloft_") || isOurKey(r.In) {
		h.Del("Authorization")
	}
}

func isOurKey(r *http.Request) bool {
	name, password, ok := r.BasicAuth()
	return ok && strings.HasPrefix(name+password, "aloft_")
}

// dropCookies removes the server's own cookies, including the dashboard's, from
// a request, in case a browser sends them.
func dropCookies(h http.Header) {
	var kept []string
	for _, line := range h["Cookie"] {
		for part := range strings.SplitSeq(line, ";") {
			name, _, _ := strings.Cut(strings.TrimSpace(part), "=")
			if part = strings.TrimSpace(part); part != "" && !ours(name) {
				kept = append(kept, part)
			}
		}
	}
	h.Del("Cookie")
	if len(kept) > 0 {
		h.Set("Cookie", strings.Join(kept, "; "))
	}
}

// ours reports whether a cookie of that name belongs to the server.
func ours(name string) bool {
	name = strings.ToLower(strings.Trim(name, " \t"))
	name = strings.TrimPrefix(strings.TrimPrefix(name, "__host-"), "__secure-")
	return strings.HasPrefix(name, "aloft")
}

// clean removes headers from a machine's response that a browser must not get.
func (p *Previews) clean(resp *http.Response) error {
	h := resp.Header
	var kept []string
	for _, line := range h["Set-Cookie"] {
		// A browser sends a nameless cookie as its bare value, which may look
		// like any other cookie.
		if name, _, _ := strings.Cut(line, "="); !ours(name) && strings.Trim(name, " \t") != "" {
			kept = append(kept, withoutDomain(line))
		}
	}
	h.Del("Set-Cookie")
	for _, line := range kept {
		h.Add("Set-Cookie", line)
	}
	h.Del("Alt-Svc")         // could redirect the origin to another server
	h.Del("Clear-Site-Data") // clears cookies of the whole site, which may include the dashboard's
	h.Add("Content-Security-Policy", "frame-ancestors 'self'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Origin-Agent-Cluster", "?1")
	if h.Get("Cross-Origin-Opener-Policy") == "" {
		h.Set("Cross-Origin-Opener-Policy", "same-origin-allow-popups")
	}
	h.Set("X-Robots-Tag", "noindex")
	return nil
}

// withoutDomain removes the Domain attribute of a cookie, so that it applies
// only to the host that sets it.
func withoutDomain(line string) string {
	parts := strings.Split(line, ";")
	kept := parts[:1]
	for _, part := range parts[1:] {
		name, _, _ := strings.Cut(strings.TrimSpace(part), "=")
		if !strings.EqualFold(strings.TrimSpace(name), "domain") {
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, ";")
}

// dial connects to the machine of AGENT:PORT.
func (p *Previews) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	agentID, portText, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialWithin)
	defer cancel()
	return p.conf.Dial(ctx, agentID, uint16(port))
}

// fail replies when the machine does not.
func (p *Previews) fail(w http.ResponseWriter, r *http.Request, err error) {
	f, ok := errors.AsType[*fault.Error](err)
	switch {
	case r.Context().Err() != nil:
		say(w, http.StatusGatewayTimeout, "The session is over.")
	case ok && f.Kind != fault.KindInternal:
		say(w, http.StatusBadGateway, strings.TrimSpace(f.Message+". "+f.Advice))
	default:
		p.conf.Logger.Debug("a preview is not answered", "error", err)
		say(w, http.StatusBadGateway, "The program in the machine sent an invalid HTTP response.")
	}
}
