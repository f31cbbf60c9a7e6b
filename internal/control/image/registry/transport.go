package registry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"aloft/internal/fault"
)

// transport is how the client reaches one registry and whatever it points to.
func (c *Client) transport(reg name.Registry) http.RoundTripper {
	known := loopback(reg.RegistryStr()) || slices.Contains(c.conf.Insecure, reg.RegistryStr())
	dialer := &net.Dialer{Timeout: 15 * time.Second, KeepAlive: 30 * time.Second}
	direct := &net.Dialer{Timeout: dialer.Timeout, KeepAlive: dialer.KeepAlive, ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		if ip := at.Addr().Unmap(); ip.IsLinkLocalUnicast() || ip.IsUnspecified() || ip.IsLoopback() && !known {
			return fmt.Errorf("%w: %s", errForbidden, ip)
		}
		return nil
	}}
	make := func(d *net.Dialer) *http.Transport {
		return &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: d.DialContext, ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: time.Minute, IdleConnTimeout: time.Minute, MaxIdleConnsPerHost: 8,
		}
	}
	return &guard{insecure: c.conf.Insecure, direct: make(direct), proxied: make(dialer)}
}

// errForbidden is an address that no registry may lead to.
var errForbidden = errors.New("registries may not lead to this address")

// errClear is a host that would be spoken to in clear.
var errClear = errors.New("it would be spoken to without TLS")

// A guard refuses what a registry's answer must not make the server do.
type guard struct {
	insecure        []string
	direct, proxied http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && !loopback(r.URL.Host) && !slices.Contains(g.insecure, r.URL.Host) {
		return nil, fmt.Errorf("%s: %w", r.URL.Host, errClear)
	}
	// A proxy has an address of its own, and its operator's rules.
	if proxy, err := http.ProxyFromEnvironment(r); err == nil && proxy != nil {
		return g.proxied.RoundTrip(r)
	}
	return g.direct.RoundTrip(r)
}

// loopback reports whether a host, with or without a port, is this one by its name.
func loopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// explain says what a person can do about an error of a registry's.
func explain(r Reference, err error) error {
	host := r.ref.Context().RegistryStr()
	if te, ok := errors.AsType[*transport.Error](err); ok {
		switch te.StatusCode {
		case http.StatusUnauthorized, http.StatusForbidden:
			return fault.Denied("registry %s does not give %s: there is no such image, or it wants other credentials", host, r.Name).
				Named("image_denied").Hint("check the name; give images.credentials for %s in the server's configuration", host).Because(err)
		case http.StatusNotFound:
			return fault.NotFound("registry %s has no image %s", host, r.Name).Named("image_not_found").
				Hint("check the name and the tag").Because(err)
		case http.StatusTooManyRequests:
			return fault.Exhausted("registry %s refuses more requests for now", host).Named("registry_limit").
				Hint("try later, or give images.credentials for %s", host).Because(err)
		}
	}
	if errors.Is(err, errClear) {
		return fault.Denied("registry %s has no TLS that works", host).Named("registry_insecure").
			Hint("if that is meant, add it to images.insecure in the server's configuration").Because(err)
	}
	if Away(err) {
		return fault.Unavailable("registry %s cannot be reached", host).Named("registry_unreachable").Because(err)
	}
	return err
}

// Away reports whether an error is of the way to a registry, or of one that is
// out of order, and not an answer.
func Away(err error) bool {
	if te, ok := errors.AsType[*transport.Error](err); ok {
		return te.StatusCode >= 500 || te.StatusCode == http.StatusTooManyRequests
	}
	_, ok := errors.AsType[net.Error](err)
	return ok && !errors.Is(err, errForbidden) && !errors.Is(err, errClear)
}
