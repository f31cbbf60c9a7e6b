package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"aloft/internal/fault"
	"aloft/internal/text"
)

// transport returns the client's HTTP transport, with the guard.
func (c *Client) transport() http.RoundTripper {
	dialer := &net.Dialer{Timeout: 15 * time.Second, KeepAlive: 30 * time.Second}
	named := &net.Dialer{Timeout: dialer.Timeout, KeepAlive: dialer.KeepAlive, ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		if ip := at.Addr().Unmap(); ip.IsLinkLocalUnicast() || ip.IsUnspecified() {
			return fmt.Errorf("%w: %s", errForbidden, ip)
		}
		return nil
	}}
	make := func(dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Transport {
		return &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: dial, ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: time.Minute, IdleConnTimeout: time.Minute, MaxIdleConnsPerHost: 8,
			MaxResponseHeaderBytes: maxHeader,
		}
	}
	g := &guard{client: c, named: make(named.DialContext), proxied: make(dialer.DialContext)}
	g.foreign = make(func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := c.foreign.Dial(ctx, network, address)
		return conn, forbidden(err)
	})
	return g
}

// errForbidden means that a registry led to a forbidden address.
var errForbidden = errors.New("registries may not lead to this address")

// errClear means that a request would use a connection without TLS.
var errClear = errors.New("it would be contacted without TLS")

// forbidden turns a refusal by the outbound policy into errForbidden.
func forbidden(err error) error {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return fmt.Errorf("%w: it %s", errForbidden, f.Message)
	}
	return err
}

// A guard refuses requests to which a reference or a registry's response must
// not lead. Hosts that the operator has configured are trusted.
type guard struct {
	client                  *Client
	named, foreign, proxied http.RoundTripper
}

// RoundTrip implements [http.RoundTripper]. Replies that the library decodes are
// limited in size first; only blobs are not.
func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := g.send(r)
	if err != nil {
		return nil, err
	}
	resp.Body = newPatient(resp.Body, g.client.patience)
	if !isBlob(r) {
		resp.Body = &document{ReadCloser: resp.Body}
	}
	return resp, nil
}

// isBlob reports whether a request, or the request that was redirected to it, is for a
// blob: /v2/<name>/blobs/<digest>. A redirect may lead to any path.
func isBlob(r *http.Request) bool {
	for r.Response != nil && r.Response.Request != nil {
		r = r.Response.Request
	}
	return path.Base(path.Dir(r.URL.Path)) == "blobs"
}

// A document limits the body of a reply that is not a blob. The library reads up to
// 100 MiB of a manifest, and needs several times as much memory to decode it.
type document struct {
	io.ReadCloser
	meter text.Meter
	size  int
}

// Read implements [io.Reader].
func (d *document) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	if d.size += n; d.size > maxDocument || !d.meter.Count(p[:n], 0, maxValues) {
		return 0, errTooLarge
	}
	return n, err
}

// A patient body is closed if a read takes longer than the patience.
type patient struct {
	io.ReadCloser
	patience time.Duration
	silent   *time.Timer // runs during a read
}

func newPatient(body io.ReadCloser, patience time.Duration) *patient {
	p := &patient{ReadCloser: body, patience: patience}
	p.silent = time.AfterFunc(patience, func() { _ = body.Close() }) // the read fails then
	p.silent.Stop()
	return p
}

// Read implements [io.Reader].
func (p *patient) Read(b []byte) (int, error) {
	p.silent.Reset(p.patience)
	n, err := p.ReadCloser.Read(b)
	if !p.silent.Stop() && err != nil {
		err = fmt.Errorf("no data for %v: %w", p.patience, err)
	}
	return n, err
}

func (g *guard) send(r *http.Request) (*http.Response, error) {
	named := g.client.isNamed(r.URL.Host)
	if !named {
		if err := forbidden(g.client.foreign.Check("https://" + r.URL.Host + "/")); err != nil {
			return nil, fmt.Errorf("%s: %w", r.URL.Host, err)
		}
	}
	if r.URL.Scheme != "https" && !loopback(r.URL.Host) && !slices.Contains(g.client.conf.Insecure, r.URL.Host) {
		return nil, fmt.Errorf("%s: %w", r.URL.Host, errClear)
	}
	// The address of a proxy is not checked: the proxy's operator decides what
	// it may reach.
	if proxy, err := http.ProxyFromEnvironment(r); err == nil && proxy != nil {
		return g.proxied.RoundTrip(r)
	}
	if named {
		return g.named.RoundTrip(r)
	}
	return g.foreign.RoundTrip(r)
}

// isNamed reports whether the operator has configured a host, with its port, as a
// registry. Credentials for Docker Hub do not count.
func (c *Client) isNamed(host string) bool {
	_, given := c.conf.Credentials[host]
	return slices.Contains(c.conf.Insecure, host) || slices.Contains(c.conf.Named, host) || given && host != name.DefaultRegistry && host != "docker.io"
}

// loopback reports whether a host name, with or without a port, means this
// host.
func loopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// explain turns an error of a registry into a fault with a hint. what is the full
// name of the image or repository.
func explain(host, what string, err error) error {
	if te, ok := errors.AsType[*transport.Error](err); ok {
		switch te.StatusCode {
		case http.StatusUnauthorized, http.StatusForbidden:
			return fault.Denied("registry %s denies access to %s: the image does not exist, or it requires other credentials", host, what).
				Named("image_denied").Hint("check the name; set images.credentials for %s in the server's configuration", host).Because(err)
		case http.StatusNotFound:
			return fault.NotFound("registry %s has no image %s", host, what).Named("image_not_found").
				Hint("check the name and the tag").Because(err)
		case http.StatusTooManyRequests:
			return fault.Exhausted("registry %s limits the rate of requests", host).Named("registry_limit").
				Hint("try later, or set images.credentials for %s", host).Because(err)
		}
	}
	if errors.Is(err, errClear) {
		return fault.Denied("registry %s does not support TLS", host).Named("registry_insecure").
			Hint("if that is intended, add it to images.insecure in the server's configuration").Because(err)
	}
	if errors.Is(err, errForbidden) {
		return fault.Denied("registry %s is at, or redirects to, an address that this server must not contact", host).Named("registry_forbidden").
			Hint("its operator can name the registry in images.credentials or images.insecure, or open the address by outbound.open").Because(err)
	}
	if Away(err) {
		return fault.Unavailable("registry %s cannot be reached", host).Named("registry_unreachable").Because(err)
	}
	return err
}

// Away reports whether an error means that a registry is unreachable or broken,
// as opposed to a definite answer.
func Away(err error) bool {
	if te, ok := errors.AsType[*transport.Error](err); ok {
		return te.StatusCode >= 500 || te.StatusCode == http.StatusTooManyRequests
	}
	_, ok := errors.AsType[net.Error](err)
	return ok && !errors.Is(err, errForbidden) && !errors.Is(err, errClear)
}
