// Package preview shows people what listens on a port of a machine, in their
// browser, at an origin of its own for each agent and port:
// http://3000-bc-….preview.localhost:8080/.
//
// What a machine serves is hostile, and so is what its pages do in a browser.
// No cookie or key of the server's gets there: a preview has a session of its
// own, which a code from the API opens once, and which is good for that agent
// and port only and as long as its key may see the agent. Pages of other
// origins, other previews among them, can lead to a preview and not use it. The
// API is not served at these origins.
package preview

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
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
	"sync"
	"time"

	"aloft/internal/fault"
)

// How long things hold, and how many there may be.
const (
	codeTTL    = time.Minute
	sessionTTL = 12 * time.Hour
	maxCodes   = 10_000
	dialWithin = 15 * time.Second
	idleConn   = 30 * time.Second
	maxHeader  = 256 << 10 // bytes of a reply's header
)

// signInPath is the one path that a machine does not serve.
const signInPath = "/.aloft/sign-in"

// Config is what [Previews] are made of. All fields but HTTPS and Logger must
// be set.
type Config struct {
	Domain string // of which each preview is a name below; a port that browsers use may follow
	HTTPS  bool   // browsers use https, by a proxy that ends it
	Secret []byte // from which the key of sessions is derived; at least 32 bytes
	// Dial connects to a TCP port of an agent's machine.
	Dial func(ctx context.Context, agentID string, port uint16) (net.Conn, error)
	// May returns nil where the key of that hash may reach the agent.
	May    func(ctx context.Context, key [sha256.Size]byte, agentID string) error
	Logger *slog.Logger // nil discards
}

// Previews serves all previews. Its methods are safe for concurrent use.
type Previews struct {
	conf  Config
	host  string // the domain without its port
	seal  cipher.AEAD
	proxy *httputil.ReverseProxy

	mu    sync.Mutex
	codes map[[sha256.Size]byte]session // by the hash of the code
}

// A session is the right to one preview, sealed in a cookie; or, for a minute
// and for once, behind a code.
type session struct {
	Key     [sha256.Size]byte `json:"key"` // the hash of the API key that it came from
	AgentID string            `json:"agent"`
	Port    uint16            `json:"port"`
	Expires time.Time         `json:"expires"`
}

// New makes previews.
func New(c Config) (*Previews, error) {
	if len(c.Secret) < 32 || c.Dial == nil || c.May == nil {
		return nil, errors.New("preview: a secret, a way to machines and a judge are needed")
	}
	host := c.Domain
	if h, port, err := net.SplitHostPort(c.Domain); err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, fmt.Errorf("preview domain %q: %q is no port", c.Domain, port)
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
	p := &Previews{conf: c, host: host, codes: map[[sha256.Size]byte]session{}}
	if p.seal, err = cipher.NewGCMWithRandomNonce(block); err != nil {
		return nil, err
	}
	p.proxy = &httputil.ReverseProxy{
		Rewrite:        p.rewrite,
		ModifyResponse: p.clean,
		ErrorHandler:   p.fail,
		FlushInterval:  -1, // streams flow
		ErrorLog:       slog.NewLogLogger(c.Logger.Handler(), slog.LevelDebug),
		Transport: &http.Transport{
			DialContext:        p.dial,
			DisableCompression: true, // what is said passes as it is
			IdleConnTimeout:    idleConn, MaxIdleConnsPerHost: 8, MaxResponseHeaderBytes: maxHeader,
		},
	}
	return p, nil
}

var validDomain = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z][a-z0-9-]{0,61}[a-z0-9]$`)

// A Link leads a browser to a preview.
type Link struct {
	URL     string    // of the preview, for who has signed in
	SignIn  string    // opens it once, until Expires
	Expires time.Time // of SignIn
}

// Open returns the link to a preview for who has the key of that hash. Whether
// they may is for the caller to know, and asked again with each request. The
// port is the server's, for a domain that names none.
func (p *Previews) Open(key [sha256.Size]byte, agentID string, port uint16, serverPort string) (Link, error) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for hash, s := range p.codes {
		if now.After(s.Expires) {
			delete(p.codes, hash)
		}
	}
	if len(p.codes) >= maxCodes {
		return Link{}, fault.Exhausted("too many previews are being opened").Hint("try again in a minute")
	}
	code := rand.Text()
	s := session{Key: key, AgentID: agentID, Port: port, Expires: now.Add(codeTTL)}
	p.codes[sha256.Sum256([]byte(code))] = s
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

// redeem takes a code, which is of no use from then on, whoever brought it.
func (p *Previews) redeem(code string) (session, bool) {
	hash := sha256.Sum256([]byte(code))
	p.mu.Lock()
	defer p.mu.Unlock()
	s, ok := p.codes[hash]
	delete(p.codes, hash)
	return s, ok && time.Now().Before(s.Expires)
}

// cookieName is the session's. A browser gives one of the longer name to nobody
// but the host that has set it, over TLS.
func (p *Previews) cookieName() string {
	if p.conf.HTTPS {
		return "__Host-" + ownCookie
	}
	return ownCookie
}

// ownCookie begins, with what browsers put before it, all names of cookies that
// machines neither see nor set.
const ownCookie = "aloft-preview"

func (p *Previews) sealed(s session) (string, error) {
	data, err := json.Marshal(s)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(p.seal.Seal(nil, nil, data, nil)), nil
}

// sessionOf finds the session of a request to a preview. Several cookies may
// have its name: another preview's page can set one for all of them.
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
