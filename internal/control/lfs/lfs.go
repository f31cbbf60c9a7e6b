// Package lfs is a client of the Git LFS API. It asks a git server which
// objects the server has, and transfers objects. The server's credential is
// sent only to the server itself.
//
// A server replies with the URLs of objects, which may be anywhere. URLs on a
// private network are rejected, except for the git server's own host and hosts
// that the operator allows. Otherwise a hostile server could make this server
// send requests to addresses that only this server can reach.
package lfs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"aloft/internal/control/outbound"
	"aloft/internal/fault"
	"aloft/internal/policy"
	"aloft/internal/text"
)

// MediaType is the media type of the API's requests and replies.
const MediaType = "application/vnd.git-lfs+json"

// Error codes of this package's faults.
const (
	CodeRefused     = "lfs_refused"
	CodeUnreachable = "lfs_unreachable"
)

// Limits for a server's replies.
const (
	maxAnswer    = 8 << 20   // bytes of a batch reply
	maxValues    = 50_000    // JSON values of a batch reply
	maxHeader    = 256 << 10 // bytes; the default of net/http is 10 MiB
	maxRedirects = 5
)

// Remote is the LFS API of one repository.
type Remote struct {
	Endpoint string // https://host/o/r.git/info/lfs
	Username string // sent with Token, to the endpoint's host only; both may be ""
	Token    string
	Named    bool // the operator has configured the endpoint's host, so any address is allowed
}

// Object is one large file.
type Object struct {
	OID  string `json:"oid"`  // SHA-256 of the contents: 64 hexadecimal digits
	Size int64  `json:"size"` // bytes
}

// Action is a request to transfer an object, as the server describes it.
type Action struct {
	Href      string            `json:"href"`
	Header    map[string]string `json:"header"`
	ExpiresIn int64             `json:"expires_in"` // validity in seconds
	ExpiresAt time.Time         `json:"expires_at"`
}

// Answer is the server's reply about one object. A reply to an upload request
// without actions and error means that the server already has the object.
type Answer struct {
	Object
	Actions struct {
		Download *Action `json:"download"`
		Upload   *Action `json:"upload"`
		Verify   *Action `json:"verify"`
	} `json:"actions"`
	Error *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// Client accesses git servers. Its methods are safe for concurrent use.
type Client struct {
	network Network
	allow   []string // hosts, without ports

	mu      sync.Mutex
	clients map[server]*http.Client // by the git server, so that servers do not share connections
}

// Network connects to hosts that the operator has not named. The error of Dial
// is a [fault.Error] if its policy refuses them.
type Network interface {
	Dial(ctx context.Context, network, address string) (net.Conn, error)
}

// server is a git server: its host, and whether the operator has named it.
type server struct {
	host  string
	named bool
}

// New returns a client. It uses network for all hosts except those in allow and
// git servers that the operator has named. A nil network allows every public
// address and every git server.
func New(allow []string, network Network) *Client {
	return &Client{allow: allow, network: network, clients: map[server]*http.Client{}}
}

// Batch asks the server about objects. operation is "download" or "upload". The
// result has answers only for the given objects.
func (c *Client) Batch(ctx context.Context, r Remote, operation string, objects []Object) ([]Answer, error) {
	body, err := json.Marshal(map[string]any{"operation": operation, "transfers": []string{"basic"}, "objects": objects, "hash_algo": "sha256"})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.Endpoint+"/objects/batch", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", MediaType)
	req.Header.Set("Content-Type", MediaType)
	res, err := c.do(r, req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	var out struct {
		Transfer string   `json:"transfer"`
		Objects  []Answer `json:"objects"`
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, unreachable(r, "its answer cannot be read").Because(err)
	case len(data) > maxAnswer || !new(text.Meter).Count(data, 0, maxValues):
		return nil, unreachable(r, "its answer is too large")
	}
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, unreachable(r, "its answer cannot be read").Because(err)
	}
	if out.Transfer != "" && out.Transfer != "basic" {
		return nil, unreachable(r, "it selected a transfer that was not requested")
	}
	return slices.DeleteFunc(out.Objects, func(a Answer) bool { return !slices.Contains(objects, a.Object) }), nil
}

// Download opens the contents of an object. The caller must limit how much it
// reads, and close the reader.
func (c *Client) Download(ctx context.Context, r Remote, a Action) (io.ReadCloser, error) {
	req, err := c.request(ctx, http.MethodGet, a, nil)
	if err != nil {
		return nil, err
	}
	res, err := c.do(r, req)
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

// Upload sends an object. If the server requests it, Upload then asks the
// server to verify the object.
func (c *Client) Upload(ctx context.Context, r Remote, a Answer, body io.Reader) error {
	req, err := c.request(ctx, http.MethodPut, *a.Actions.Upload, body)
	if err != nil {
		return err
	}
	req.ContentLength = a.Size
	if a.Size == 0 {
		req.Body = http.NoBody
	}
	if req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/octet-stream")
	}
	res, err := c.do(r, req)
	if err != nil {
		return err
	}
	_ = res.Body.Close()
	if a.Actions.Verify == nil {
		return nil
	}
	what, err := json.Marshal(a.Object)
	if err != nil {
		return err
	}
	if req, err = c.request(ctx, http.MethodPost, *a.Actions.Verify, bytes.NewReader(what)); err != nil {
		return err
	}
	req.Header.Set("Accept", MediaType)
	req.Header.Set("Content-Type", MediaType)
	if res, err = c.do(r, req); err != nil {
		return err
	}
	return res.Body.Close()
}

func (c *Client) request(ctx context.Context, method string, a Action, body io.Reader) (*http.Request, error) {
	u, err := url.Parse(a.Href)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fault.Denied("the git server returned no usable address for a large file").Named(CodeRefused)
	}
	req, err := http.NewRequestWithContext(ctx, method, a.Href, body)
	if err != nil {
		return nil, err
	}
	for name, value := range a.Header {
		switch http.CanonicalHeaderKey(name) {
		case "Host", "Content-Length", "Transfer-Encoding", "Connection":
			continue
		}
		req.Header.Set(name, value)
	}
	return req, nil
}

// do sends a request. It adds the credential only if the request goes to the
// endpoint's own server. If the reply has an error status, do returns an error.
func (c *Client) do(r Remote, req *http.Request) (*http.Response, error) {
	own, err := url.Parse(r.Endpoint)
	if err != nil {
		return nil, err
	}
	if r.Token != "" && req.Header.Get("Authorization") == "" && req.URL.Host == own.Host && req.URL.Scheme == own.Scheme {
		req.SetBasicAuth(r.Username, r.Token)
	}
	res, err := c.client(server{own.Hostname(), r.Named || c.network == nil}).Do(req)
	if err != nil {
		if req.Context().Err() != nil {
			return nil, context.Cause(req.Context())
		}
		if b, ok := errors.AsType[*blockedError](err); ok {
			return nil, fault.Denied("the git server stores its large files at %s, which is not on a public network", b.host).Named(CodeRefused).
				Hint("if that is intended, add the host to git.lfs_hosts in the server's configuration")
		}
		if f, ok := errors.AsType[*fault.Error](err); ok {
			return nil, fault.Denied("the git server stores its large files at an unusable address: it %s", f.Message).Named(CodeRefused).
				Hint("if that is intended, add the host to git.lfs_hosts in the server's configuration").Because(err)
		}
		return nil, unreachable(r, "no answer").Because(err)
	}
	if res.StatusCode/100 == 2 {
		return res, nil
	}
	_ = res.Body.Close()
	switch res.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, fault.Denied("%s refused the server's credential for its large files (HTTP %d)", own.Host, res.StatusCode).Named(CodeRefused).
			Hint("check that the token under git.credentials may use the repository's Git LFS")
	case http.StatusNotFound:
		return nil, fault.NotFound("%s has no large files for this repository, or not this one", own.Host).Named("lfs_not_found")
	}
	return nil, unreachable(r, fmt.Sprintf("HTTP %d", res.StatusCode))
}

func unreachable(r Remote, why string) *fault.Error {
	return fault.Unavailable("large files of %s could not be reached: %s", strings.TrimSuffix(r.Endpoint, "/info/lfs"), why).
		Named(CodeUnreachable).Hint("try again in a moment")
}

// blockedError says that an address must not be contacted.
type blockedError struct{ host, rule string }

func (e *blockedError) Error() string { return e.host + ": " + e.rule }

// client returns the HTTP client for requests on behalf of the server of.
func (c *Client) client(of server) *http.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.clients[of]; known != nil {
		return known
	}
	var proxies sync.Map // addresses of proxies that the operator has configured
	dial := &net.Dialer{Timeout: 30 * time.Second}
	t := &http.Transport{
		Proxy: func(r *http.Request) (*url.URL, error) {
			u, err := http.ProxyFromEnvironment(r)
			if u != nil {
				proxies.Store(u.Hostname(), true)
			}
			return u, err
		},
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			to, _, err := net.SplitHostPort(addr)
			if err != nil {
				return nil, err
			}
			d := *dial
			_, proxy := proxies.Load(to)
			switch {
			case proxy, of.named && to == of.host, slices.Contains(c.allow, to):
			case c.network != nil:
				return c.network.Dial(ctx, network, addr)
			default:
				d.Control = func(_, at string, _ syscall.RawConn) error { return public(to, at) }
			}
			return d.DialContext(ctx, network, addr)
		},
		ResponseHeaderTimeout: time.Minute, TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: time.Minute,
		MaxIdleConnsPerHost: 4, DisableCompression: true, MaxResponseHeaderBytes: maxHeader,
	}
	made := &http.Client{Transport: t, CheckRedirect: func(to *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return errors.New("too many redirects")
		}
		if !outbound.SameOrigin(to.URL, via[0].URL) { // net/http ignores the port and the scheme, and trusts subdomains
			to.Header.Del("Authorization")
		}
		return nil
	}}
	c.clients[of] = made
	return made
}

// public returns an error if addr is on a private network.
func public(host, addr string) error {
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return err
	}
	if rule, blocked := new(policy.Matcher).Blocked(at.Addr()); blocked {
		return &blockedError{host, rule}
	}
	return nil
}

// Close closes idle connections.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, known := range c.clients {
		known.CloseIdleConnections()
	}
}
