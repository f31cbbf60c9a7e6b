// Package preview shows services on ports of a machine in users' browsers, at a
// separate origin for each agent and port:
// http://3000-bc-….preview.localhost:8080/.
//
// A machine's pages are hostile, in the browser too. They get none of the
// server's cookies or keys. A preview has its own session, which a browser
// opens with a single-use code from the API. A session is valid for one agent
// and port only, and only while its API key may access the agent. Pages of
// other origins, including other previews, can link to a preview but not use
// it. The API is not served at these origins.
package preview

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Durations and limits.
const (
	sessionTTL = 12 * time.Hour
	dialWithin = 15 * time.Second
	idleConn   = 30 * time.Second
	maxHeader  = 256 << 10 // bytes of a response header
	maxConns   = 128       // connections to a port; further requests wait
)

// signInPath is the only path that is not forwarded to the machine.
const signInPath = "/.aloft/sign-in"

// Config holds the settings of [Previews]. All fields except HTTPS and Logger
// are required.
type Config struct {
	Domain string // previews are subdomains of this domain; may include the port for browsers
	HTTPS  bool   // browsers use https, which a proxy terminates
	Secret []byte // the session key is derived from this; at least 32 bytes
	// Dial connects to a TCP port of an agent's machine.
	Dial func(ctx context.Context, agentID string, port uint16) (net.Conn, error)
	// May returns nil if the API key with that hash may access the agent.
	May    func(ctx context.Context, key [sha256.Size]byte, agentID string) error
	Logger *slog.Logger // nil means no logging
}

// Previews serves all previews. Its methods are safe for concurrent use.
type Previews struct {
	conf  Config
	host  string // the domain without its port
	seal  cipher.AEAD
	proxy *httputil.ReverseProxy
	codes *codes
}

// A session is the permission to use one preview, stored in an encrypted cookie
// or, for a minute and a single use, in a code.
type session struct {
	Key     [sha256.Size]byte `json:"key"` // hash of the API key that created the session
	AgentID string            `json:"agent"`
	Port    uint16            `json:"port"`
	Expires time.Time         `json:"expires"`
}

// New returns the previews for the configuration.
func New(c Config) (*Previews, error) {
	if len(c.Secret) < 32 || c.Dial == nil || c.May == nil {
		return nil, errors.New("preview: Secret, Dial and May are required")
	}
	host := c.Domain
	if h, port, err := net.SplitHostPort(c.Domain); err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, fmt.Errorf("preview domain %q: invalid port %q", c.Domain, port)
		}
		host = h
	}
	if host = strings.ToLower(host); !validDomain.MatchString(host) {
		return nil, fmt.Errorf("preview domain %q: it is a domain such as preview.example.com, and a port may follow", c.Domain)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	key, err := hkdf.Key(sha256.New, c.Secret, nil, "aloft preview sessions", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	p := &Previews{conf: c, host: host}
	if p.codes, err = newCodes(); err != nil {
		return nil, err
	}
	if p.seal, err = cipher.NewGCMWithRandomNonce(block); err != nil {
		return nil, err
	}
	p.proxy = &httputil.ReverseProxy{
		Rewrite:        p.rewrite,
		ModifyResponse: p.clean,
		ErrorHandler:   p.fail,
		FlushInterval:  -1, // do not buffer streams
		ErrorLog:       slog.NewLogLogger(c.Logger.Handler(), slog.LevelDebug),
		Transport: &http.Transport{
			DialContext:        p.dial,
			DisableCompression: true, // forward bodies unchanged
			IdleConnTimeout:    idleConn, MaxIdleConnsPerHost: 8, MaxConnsPerHost: maxConns, MaxResponseHeaderBytes: maxHeader,
		},
	}
	return p, nil
}

var validDomain = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z][a-z0-9-]{0,61}[a-z0-9]$`)

// A Link leads a browser to a preview.
type Link struct {
	URL     string    // URL of the preview, for users with a session
	SignIn  string    // URL that opens a session once, until Expires
	Expires time.Time // expiry of SignIn
}

// Open returns the link to a preview for the API key with the given hash. The
// caller must have checked access; each request to the preview checks it again.
// serverPort is used if the domain has no port.
func (p *Previews) Open(key [sha256.Size]byte, agentID string, port uint16, serverPort string) (Link, error) {
	s := session{Key: key, AgentID: agentID, Port: port, Expires: time.Now().Add(codeTTL)}
	code, err := p.codes.issue(s)
	if err != nil {
		return Link{}, err
	}
	u := url.URL{Scheme: p.scheme(), Host: fmt.Sprintf("%d-%s.%s", port, agentID, p.conf.Domain), Path: "/"}
	if !p.conf.HTTPS && p.host == strings.ToLower(p.conf.Domain) && serverPort != "" {
		u.Host = net.JoinHostPort(u.Host, serverPort)
	}
	link := Link{URL: u.String(), Expires: s.Expires}
	u.Path, u.RawQuery = signInPath, url.Values{"code": {code}}.Encode()
	link.SignIn = u.String()
	return link, nil
}

func (p *Previews) scheme() string {
	if p.conf.HTTPS {
		return "https"
	}
	return "http"
}

// cookieName returns the name of the session cookie. With HTTPS it has the
// __Host- prefix, which browsers accept and send only for exactly this host
// over TLS.
func (p *Previews) cookieName() string {
	if p.conf.HTTPS {
		return "__Host-" + ownCookie
	}
	return ownCookie
}

// ownCookie is the prefix of the names of the server's own cookies, which
// machines can neither see nor set. Browsers may add another prefix.
const ownCookie = "aloft-preview"

func (p *Previews) sealed(s session) (string, error) {
	data, err := json.Marshal(s)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(p.seal.Seal(nil, nil, data, nil)), nil
}

// sessionOf finds the session of a request to a preview. There may be several
// cookies of that name, since a page of another preview can set one for the
// whole domain.
func (p *Previews) sessionOf(r *http.Request, agentID string, port uint16) (session, bool) {
	for _, c := range r.CookiesNamed(p.cookieName()) {
		data, err := base64.RawURLEncoding.DecodeString(c.Value)
		if err != nil {
			continue
		}
		if data, err = p.seal.Open(nil, nil, data, nil); err != nil {
			continue
		}
		var s session
		if json.Unmarshal(data, &s) == nil && s.AgentID == agentID && s.Port == port && time.Now().Before(s.Expires) {
			return s, true
		}
	}
	return session{}, false
}
