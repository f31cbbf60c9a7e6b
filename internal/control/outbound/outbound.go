// Package outbound is the HTTP client with which the server contacts addresses
// that its users name: webhooks, images in prompts, registries of container
// images. A policy checks the address of every connection when it is dialed,
// rather than the name beforehand, so that nobody can use the server to reach
// addresses that only its host can reach. It uses no proxy, because a proxy
// would dial the addresses itself.
package outbound

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"time"
	"unicode"

	"aloft/internal/fault"
	"aloft/internal/policy"
)

// Limits of one request.
const (
	dialWithin  = 5 * time.Second
	imageWithin = 20 * time.Second
	maxHeader   = 64 << 10
	maxURL      = 2048
	// MaxImage is the maximum size of an image, in bytes.
	MaxImage     = 15 << 20
	maxRedirects = 3
)

// imageTypes are the image types that models accept.
var imageTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// Client sends HTTP requests to addresses that its policy allows. Its methods
// are safe for concurrent use.
type Client struct {
	rules *policy.Matcher
	http  *http.Transport
	host  func() ([]net.Addr, error) // addresses of the host's interfaces
}

// New returns a client with the given policy.
func New(network policy.Network) (*Client, error) {
	rules, err := network.Compile()
	if err != nil {
		return nil, err
	}
	c := &Client{rules: rules, host: net.InterfaceAddrs}
	c.http = &http.Transport{
		DialContext: c.Dial, TLSHandshakeTimeout: dialWithin, MaxResponseHeaderBytes: maxHeader,
		DisableKeepAlives: true, // each client sends only one request
	}
	return c, nil
}

// Check rejects a URL that cannot be contacted. Its error is a fault that does
// not repeat the URL.
func (c *Client) Check(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case raw == "":
		return fault.Invalid("is required")
	case len(raw) > maxURL:
		return fault.Invalid("is longer than %d bytes", maxURL)
	case err != nil, u.Host == "", u.Hostname() == "", u.Scheme != "https" && u.Scheme != "http":
		return fault.Invalid("is not a URL such as https://example.com/path")
	case slices.ContainsFunc([]rune(raw), unicode.IsControl):
		return fault.Invalid("contains control characters")
	case u.User != nil:
		return fault.Invalid("must not contain a user or a password")
	}
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil {
		return refusal(c.address(addr, nil))
	}
	return refusal(c.rules.Name(u.Hostname()))
}

// address checks an address of a resolved name. It rejects the host's own
// addresses in any range, unless the operator has allowed them.
func (c *Client) address(addr netip.Addr, names []string) policy.Verdict {
	v := c.rules.Address(addr, names)
	if !v.Allowed || c.rules.Opened(addr) {
		return v
	}
	own, err := c.host()
	if err != nil {
		return policy.Verdict{Rule: "the host's addresses are not known"}
	}
	for _, a := range own {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Unmap().WithZone("") == addr.Unmap().WithZone("") {
			return policy.Verdict{Rule: "always blocked: an address of the host"}
		}
	}
	return v
}

func refusal(v policy.Verdict) error {
	if v.Allowed {
		return nil
	}
	return fault.Invalid("is at an address that this server must not contact: %s", v.Rule).Named("address_blocked").
		Hint("its operator can allow it: `outbound` in the configuration")
}

// Post sends the body, and returns the reply's status. It does not follow
// redirects or read the reply's body. The error contains only the host of the
// URL.
func (c *Client) Post(ctx context.Context, rawURL string, header http.Header, body io.Reader) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, rawURL, body)
	if err != nil {
		return 0, errors.New("the address is not a URL")
	}
	req.Header = header
	resp, err := c.http.RoundTrip(req) // RoundTrip, because Do would follow redirects
	if err != nil {
		return 0, err
	}
	_ = resp.Body.Close() // the body is not read
	return resp.StatusCode, nil
}

// Image fetches an image, and returns the type detected from its bytes. The
// error is a fault.
func (c *Client) Image(ctx context.Context, rawURL string) (data []byte, media string, err error) {
	if err := c.Check(rawURL); err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, imageWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, rawURL, nil)
	if err != nil {
		return nil, "", fault.Invalid("is not a URL")
	}
	client := http.Client{Transport: c.http, CheckRedirect: func(to *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return fmt.Errorf("more than %d redirects", maxRedirects)
		}
		to.Header.Del("Referer") // a URL may contain a token for its own server
		return c.Check(to.URL.String())
	}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, "", fetchError(err)
	}
	defer func() { _ = resp.Body.Close() }() // the relevant part was read
	if resp.StatusCode != http.StatusOK {
		return nil, "", fault.Invalid("could not be fetched: the server replied with status %d", resp.StatusCode).Named("image_unreachable")
	}
	data, err = io.ReadAll(io.LimitReader(resp.Body, MaxImage+1))
	if err != nil {
		return nil, "", fetchError(err)
	}
	if len(data) > MaxImage {
		return nil, "", fault.Invalid("is larger than %d MiB", MaxImage>>20).Hint("scale the image down")
	}
	if media = http.DetectContentType(data); !slices.Contains(imageTypes, media) {
		return nil, "", fault.Invalid("is %s; PNG, JPEG, GIF and WebP images are accepted", media)
	}
	return data, media, nil
}

// fetchError says why a fetch failed, without the URL.
func fetchError(err error) error {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return fault.Invalid("could not be fetched: %v", err).Named("image_unreachable").Hint("send the image itself, in data")
}

// Dial connects to the first address of the name that the policy allows.
func (c *Client) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialWithin)
	defer cancel()
	addrs, err := c.Resolve(ctx, host)
	for _, addr := range addrs {
		var conn net.Conn
		var d net.Dialer
		if conn, err = d.DialContext(ctx, network, net.JoinHostPort(addr.Unmap().String(), port)); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// Resolve returns the addresses of a name, or of an address, that the policy
// allows. If there are none, it returns an error, which is a fault if the
// policy rejected all addresses.
func (c *Client) Resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	var names []string
	var all []netip.Addr
	if addr, err := netip.ParseAddr(host); err == nil {
		all = append(all, addr)
	} else {
		if err := refusal(c.rules.Name(host)); err != nil {
			return nil, err
		}
		names = []string{host}
		if all, err = net.DefaultResolver.LookupNetIP(ctx, "ip", host); err != nil {
			return nil, err
		}
	}
	var allowed []netip.Addr
	err := fmt.Errorf("%s has no address", host)
	for _, addr := range all {
		if refused := refusal(c.address(addr, names)); refused != nil {
			err = refused
			continue
		}
		allowed = append(allowed, addr.Unmap())
	}
	if len(allowed) > 0 {
		return allowed, nil
	}
	return nil, err
}
