// Package web makes HTTP requests on behalf of a model, from inside its machine. A URL
// may come from prompt injection, and a server may be malicious. So the package does not
// connect to private addresses, even if a public name resolves to them, and limits time,
// size and redirects. It keeps no cookies, uses no proxy, and runs no scripts.
package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/net/html/charset"

	"aloft/internal/text"
)

const (
	// MaxBody is how much of a body is read, in bytes after decompression.
	MaxBody      = 10 << 20
	maxRedirects = 10
	maxURL       = 8 << 10
	agent        = "aloft-fetch/1 (+an agent that works for a person)"
)

// Client makes requests. It is safe for concurrent use.
type Client struct {
	http *http.Client
}

// New returns a Client. may checks each address after name resolution and before
// dialing; in a machine, pass Public.
func New(may func(netip.Addr) error) *Client {
	dialer := &net.Dialer{
		Timeout: 10 * time.Second,
		// Control is called right before connecting, so DNS rebinding cannot
		// bypass the check.
		Control: func(_, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err != nil {
				return fmt.Errorf("address %q: %w", address, err)
			}
			return may(at.Addr())
		},
	}
	transport := &http.Transport{
		DialContext:            dialer.DialContext,
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    10 * time.Second,
		ResponseHeaderTimeout:  60 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		MaxIdleConns:           4,
		IdleConnTimeout:        10 * time.Second,
	}
	return &Client{&http.Client{Transport: transport, CheckRedirect: checkRedirect}}
}

func checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return fmt.Errorf("it redirected more than %d times", maxRedirects)
	}
	return checkURL(req.URL)
}

// errPrivate is wrapped by errors about addresses that are not public.
var errPrivate = errors.New("the address is not public")

// Answer is a response.
type Answer struct {
	URL         string // the final URL, after redirects
	Status      int
	Header      http.Header
	ContentType string // lower case, without parameters; detected from the body if missing
	Body        []byte // at most MaxBody bytes
	Truncated   bool   // the body was longer
	charset     string
}

// Get gets a URL. A response of any status is returned without an error. The
// error is for the model.
func (c *Client) Get(ctx context.Context, address string) (Answer, error) {
	at, err := parseURL(address)
	if err != nil {
		return Answer{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return Answer{}, fmt.Errorf("url %q: %w", clip(address), err)
	}
	req.Header.Set("User-Agent", agent)
	req.Header.Set("Accept", "text/html,application/xhtml+xml,text/markdown;q=0.9,*/*;q=0.8")
	resp, err := c.http.Do(req)
	if err != nil {
		return Answer{}, explain(ctx, at, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxBody+1))
	if err != nil && len(body) == 0 {
		return Answer{}, explain(ctx, at, err)
	}
	a := Answer{
		URL: resp.Request.URL.String(), Status: resp.StatusCode, Header: resp.Header,
		Truncated: len(body) > MaxBody || err != nil, Body: body[:min(len(body), MaxBody)],
	}
	kind, params, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil || kind == "application/octet-stream" {
		kind, params, _ = mime.ParseMediaType(http.DetectContentType(a.Body)) // always well formed
	}
	a.ContentType, a.charset = strings.ToLower(kind), params["charset"]
	return a, nil
}

func parseURL(address string) (*url.URL, error) {
	if len(address) > maxURL {
		return nil, fmt.Errorf("the url is longer than %d bytes", maxURL)
	}
	at, err := url.Parse(strings.TrimSpace(address))
	if err != nil {
		return nil, fmt.Errorf("url %q cannot be parsed: give one such as https://example.com/page", clip(address))
	}
	at.Fragment, at.RawFragment = "", ""
	return at, checkURL(at)
}

func checkURL(at *url.URL) error {
	switch {
	case at.Scheme != "http" && at.Scheme != "https":
		return fmt.Errorf("url %q does not begin with http:// or https://", clip(at.String()))
	case at.Hostname() == "":
		return fmt.Errorf("url %q has no host", clip(at.String()))
	}
	return nil
}

func clip(s string) string { return text.Head(s, 200) }

// explain converts an error to a message that the model can act on.
func explain(ctx context.Context, at *url.URL, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	var failure *url.Error
	if errors.As(err, &failure) {
		err = failure.Err
	}
	var dns *net.DNSError
	switch host := at.Hostname(); {
	case errors.Is(err, errPrivate):
		return fmt.Errorf("%s is this machine or in a private network, which this tool does not access (%w): to reach a server that you started, use curl in Shell", host, err)
	case errors.As(err, &dns) && dns.IsNotFound:
		return fmt.Errorf("cannot find the host %s: check the name; if no name can be found, this machine has no network", host)
	case errors.As(err, &dns), errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return fmt.Errorf("cannot reach %s: this machine has no network route to it (%w)", host, err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%s refused the connection", at.Host)
	}
	return fmt.Errorf("get %s: %w", clip(at.String()), err)
}

// IsText reports whether the body is text.
func (a Answer) IsText() bool {
	kind := a.ContentType
	if strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "+json") || strings.HasSuffix(kind, "+xml") {
		return true
	}
	switch kind {
	case "application/json", "application/xml", "application/javascript", "application/x-javascript", "application/ecmascript",
		"application/yaml", "application/x-yaml", "application/toml", "application/sql", "application/x-sh", "application/x-ndjson", "application/graphql":
		return true
	}
	return strings.HasPrefix(kind, "application/") && a.charset != "" && bytes.IndexByte(a.Body, 0) < 0
}

// Text returns the body as UTF-8. The character set is the one declared in the
// response or the body, or else detected.
func (a Answer) Text() string {
	encoding, name, sure := charset.DetermineEncoding(a.Body, a.typeWithCharset())
	if name == "utf-8" || !sure && utf8.Valid(a.Body) {
		return strings.ToValidUTF8(strings.TrimPrefix(string(a.Body), "\uFEFF"), "\uFFFD")
	}
	text, err := encoding.NewDecoder().Bytes(a.Body)
	if err != nil {
		text = a.Body
	}
	return strings.ToValidUTF8(string(text), "\uFFFD")
}

func (a Answer) typeWithCharset() string {
	if a.charset == "" {
		return a.ContentType
	}
	return a.ContentType + "; charset=" + a.charset
}
