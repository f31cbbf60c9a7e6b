// Package web gets things by HTTP on behalf of a model, from inside its
// machine. What a model asks for may have been put into its mouth by what it read,
// and what answers may be hostile: so private addresses are not dialled, whatever
// name led there, and time, size and redirects are bounded. It keeps no cookies,
// uses no proxy, and runs no script of a page.
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
)

const (
	// MaxBody bounds, in bytes, what is read of an answer, decompressed.
	MaxBody      = 10 << 20
	maxRedirects = 10
	maxURL       = 8 << 10
	agent        = "aloft-fetch/1 (+an agent that works for a person)"
)

// Client gets things. It is safe for concurrent use.
type Client struct {
	http *http.Client
}

// New returns a Client. may judges each address before it is dialled, after
// names were resolved; Public is what it is in a machine.
func New(may func(netip.Addr) error) *Client {
	dialer := &net.Dialer{
		Timeout: 10 * time.Second,
		// The last step before the connection: a name that is resolved twice to
		// different addresses gains nothing.
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
		return fmt.Errorf("it redirects more than %d times", maxRedirects)
	}
	return checkURL(req.URL)
}

// errPrivate is what errors wrap that come of an address that is not public.
var errPrivate = errors.New("the address is not public")

// Answer is what came back.
type Answer struct {
	URL         string // that answered, after redirects
	Status      int
	Header      http.Header
	ContentType string // without parameters, lower case; what the body looks like, if nothing says it
	Body        []byte // at most MaxBody
	Truncated   bool   // the body went on
	charset     string
}

// Get gets a URL. An answer of any status is an answer. The error is for the
// model.
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
		kind, params, _ = mime.ParseMediaType(http.DetectContentType(a.Body)) // it is well formed
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
		return fmt.Errorf("url %q names no host", clip(at.String()))
	}
	return nil
}

func clip(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), 200)], "\uFFFD")
}

// explain says what went wrong in words that the model can act on.
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
		return fmt.Errorf("%s leads to the machine itself or a private network, which this tool does not ask (%w): use curl in Shell for a server that you started", host, err)
	case errors.As(err, &dns) && dns.IsNotFound:
		return fmt.Errorf("there is no host %s: check the name; if every name is unknown, this machine has no network", host)
	case errors.As(err, &dns), errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return fmt.Errorf("%s cannot be reached: this machine has no network that leads there (%w)", host, err)
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

// Text is the body as UTF-8, from the character set that the answer names, or
// that the body does, or that it looks like.
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
