// Package client speaks the REST API of a server: what it asks, what it gets
// back, and how a stream that broke is taken up again. It believes the server no
// further than it must: replies are bounded, and redirects are not followed, so
// that a key goes to nobody else.
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
	// maxReply bounds a reply that is read whole.
	maxReply = 64 << 20
	// maxError bounds the part of an error's reply that is read.
	maxError = 64 << 10
)

// Client speaks to one server for one user. Its methods are safe for concurrent
// use. Their errors are an [*Error] where the server refused, and an
// [*UnreachableError] where there was none to ask.
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
		return nil, fmt.Errorf("%q is not the address of a server: it should look like http://127.0.0.1:8080", base)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("the address of a server has no user, query or fragment")
	}
	u.Path = strings.TrimRight(u.Path, "/")
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		ResponseHeaderTimeout: 2 * time.Minute, // the server may have to look at a repository
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

// URL is the server's address.
func (c *Client) URL() string { return c.base.String() }

// segment makes a path's part of a name that a person gave.
func segment(name string) string {
	if name == "." || name == ".." || name == "" {
		name = "-" // which names nothing, and does not name another path
	}
	return url.PathEscape(name)
}

// open sends a request and returns its reply, which is a success. The path is
// escaped already.
func (c *Client) open(ctx context.Context, method, path string, query url.Values, in any, header http.Header) (*http.Response, error) {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(data)
	}
	target := c.base.String() + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return nil, err
	}
	for name, values := range header {
		req.Header[name] = values
	}
	if in != nil {
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

// call sends a request without a body and reads its reply into out, unless
// that is nil.
func (c *Client) call(ctx context.Context, method, path string, query url.Values, out any) error {
	return c.callWith(ctx, method, path, query, nil, out, nil)
}

func (c *Client) callWith(ctx context.Context, method, path string, query url.Values, in, out any, header http.Header) error {
	reply, err := c.open(ctx, method, path, query, in, header)
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
		return fmt.Errorf("the server's reply to %s %s is longer than %d MiB", method, path, maxReply>>20)
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("the reply to %s %s is not what this API gives: is %s an Aloft server? %w", method, path, c.base, err)
	}
	return nil
}
