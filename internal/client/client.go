// Package client is a client of the REST API, with types for requests and
// replies, and streams that resume after a lost connection. It trusts the
// server as little as possible: it limits the size of replies, and does not
// follow redirects, so that no other server gets the API key.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// maxReply is the maximum number of bytes read from a reply that is not a
	// stream.
	maxReply = 64 << 20
	// maxError is the maximum number of bytes that are read of an error reply.
	maxError = 64 << 10
)

// Client connects to one server as one user. Its methods are safe for concurrent use.
// They return an [*Error] if the server refused the request, and an [*UnreachableError]
// if it did not answer.
type Client struct {
	base *url.URL
	key  string
	http *http.Client
	wait backoff
}

// New returns a client of the server at base, such as http://127.0.0.1:8080.
func New(base, key string) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is not the address of a server: use an address such as http://127.0.0.1:8080", base)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("the address of a server must not have a user, query or fragment")
	}
	u.Path = strings.TrimRight(u.Path, "/")
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		ResponseHeaderTimeout: 2 * time.Minute, // the server may have to fetch a repository
		IdleConnTimeout:       time.Minute,
		ForceAttemptHTTP2:     true,
	}
	return &Client{
		base: u, key: key, wait: defaultBackoff,
		http: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// URL returns the server's address.
func (c *Client) URL() string { return c.base.String() }

// segment escapes name, which a person has typed, as one path segment.
func segment(name string) string {
	if name == "." || name == ".." || name == "" {
		name = "-" // matches nothing, and does not lead to another path
	}
	return url.PathEscape(name)
}

// request is a request to the server.
type request struct {
	method string
	path   string // escaped
	query  url.Values
	in     any // body, to be encoded as JSON; nil for no body
	header http.Header
}

// open sends a request and returns the reply if the request succeeded.
func (c *Client) open(ctx context.Context, r request) (*http.Response, error) {
	var body io.Reader
	if r.in != nil {
		data, err := json.Marshal(r.in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(data)
	}
	target := c.base.String() + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, body)
	if err != nil {
		return nil, err
	}
	for name, values := range r.header {
		req.Header[name] = values
	}
	if r.in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	reply, err := c.http.Do(req)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		return nil, &UnreachableError{URL: c.base.String(), Err: unwrapURL(err)}
	}
	if reply.StatusCode >= 300 {
		defer reply.Body.Close()
		return nil, readError(reply)
	}
	return reply, nil
}

// call sends a request without a body and decodes the reply into out, unless out is nil.
func (c *Client) call(ctx context.Context, method, path string, query url.Values, out any) error {
	return c.callWith(ctx, request{method: method, path: path, query: query}, out)
}

// callWith sends a request and decodes the reply into out, unless out is nil.
func (c *Client) callWith(ctx context.Context, r request, out any) error {
	reply, err := c.open(ctx, r)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	data, err := io.ReadAll(io.LimitReader(reply.Body, maxReply+1))
	switch {
	case err != nil:
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return &UnreachableError{URL: c.base.String(), Err: err}
	case len(data) > maxReply:
		return fmt.Errorf("the server's reply to %s %s is longer than %d MiB", r.method, r.path, maxReply>>20)
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("unexpected reply to %s %s: is %s an Aloft server? %w", r.method, r.path, c.base, err)
	}
	return nil
}
