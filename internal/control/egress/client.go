package egress

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"aloft/internal/policy"
)

// maxPage is the maximum size of a reply in bytes.
const maxPage = 32 << 20

// Client talks to an egress process. Its methods are safe for concurrent use.
type Client struct{ http *http.Client }

// NewClient returns a client of the control socket that dial connects to.
func NewClient(dial func(ctx context.Context) (net.Conn, error)) *Client {
	return &Client{&http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
	}}}
}

// SetPolicy replaces the network policy: see [Gateway.SetPolicy].
func (c *Client) SetPolicy(ctx context.Context, n policy.Network) error {
	body, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return c.do(ctx, http.MethodPut, policyPath, body, nil)
}

// Connections returns the open connections, and at most limit of the
// connections that ended after sequence number after. If no such connection has
// ended, it waits for one, up to wait, which is at most a minute.
func (c *Client) Connections(ctx context.Context, after uint64, limit int, wait time.Duration) (policy.Connections, error) {
	q := url.Values{"after": {strconv.FormatUint(after, 10)}, "limit": {strconv.Itoa(limit)}, "wait": {wait.String()}}
	var p policy.Connections
	return p, c.do(ctx, http.MethodGet, connectionsPath+"?"+q.Encode(), nil, &p)
}

func (c *Client) do(ctx context.Context, method, path string, body []byte, out any) (err error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://gateway"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	reply := io.LimitReader(resp.Body, maxPage)
	if resp.StatusCode >= 300 {
		words, _ := io.ReadAll(io.LimitReader(reply, 4<<10))
		return fmt.Errorf("gateway: %s", strings.TrimSpace(string(words)))
	}
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(reply).Decode(out); err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	return nil
}
