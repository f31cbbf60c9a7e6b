package outbound

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"aloft/internal/fault"
	"aloft/internal/text"
)

// maxValues is the maximum number of JSON values in a reply, or in one event of
// a stream. An MCP client allocates about 32 KiB to decode a tool "{}".
const maxValues = 50_000

// idleFor is how long an idle connection is kept.
const idleFor = 90 * time.Second

// errTooLarge is the error for a reply above the limit.
var errTooLarge = errors.New("the reply is too large")

// Converse returns a client for several requests to a server that users name.
// Reading a reply or a stream fails after the given number of bytes, and after
// maxValues JSON values in a reply or an event. Redirects are followed only
// within the same scheme, host and port, so that no other server gets the
// request's credentials. The request's context sets the timeout.
// CloseIdleConnections closes the connections.
func (c *Client) Converse(most int64) *http.Client {
	t := c.http.Clone()
	t.DisableKeepAlives, t.MaxIdleConnsPerHost, t.IdleConnTimeout = false, 2, idleFor
	return &http.Client{
		Transport: &bounded{Transport: t, check: c.Check, most: most},
		CheckRedirect: func(to *http.Request, via []*http.Request) error {
			if len(via) > maxRedirects {
				return fmt.Errorf("more than %d redirects", maxRedirects)
			}
			if !SameOrigin(to.URL, via[0].URL) {
				return fault.Invalid("redirects to another server, which is not allowed").Named("redirected")
			}
			return nil
		},
	}
}

// SameOrigin reports whether two URLs have the same scheme, host and port.
func SameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && a.Hostname() == b.Hostname() && portOf(a) == portOf(b)
}

func portOf(u *url.URL) string {
	switch port := u.Port(); {
	case port != "":
		return port
	case u.Scheme == "https":
		return "443"
	default:
		return "80"
	}
}

// bounded checks the URL of each request, and limits each reply.
type bounded struct {
	*http.Transport
	check func(rawURL string) error
	most  int64
}

func (b *bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := b.check(req.URL.String()); err != nil {
		return nil, err
	}
	resp, err := b.Transport.RoundTrip(req)
	if err == nil {
		resp.Body = &boundedBody{ReadCloser: resp.Body, left: b.most}
	}
	return resp, err
}

type boundedBody struct {
	io.ReadCloser
	left  int64
	meter text.Meter
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLarge
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	if !b.meter.Count(p[:n], 0, maxValues) {
		return 0, errTooLarge
	}
	return n, err
}
