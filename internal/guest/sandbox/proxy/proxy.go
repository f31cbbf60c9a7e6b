// Package proxy is the only network access of a sandbox whose policy lists hosts. The
// proxy listens on loopback in the sandbox's network namespace and is served by a
// process outside. It speaks HTTP (CONNECT and plain requests) and SOCKS5, and tells
// them apart by the first byte.
//
// Each connection is checked twice, by the same rules as in a machine's network gateway:
// the name before it is resolved, and the address before it is dialed. The proxy dials
// the address that it checked, so changing a DNS record between two lookups (DNS
// rebinding) gains nothing. It does not inspect TLS traffic.
package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"aloft/internal/policy"
)

// Limits on connections and requests.
const (
	maxConnections = 512
	maxHead        = 64 << 10 // bytes of a request's line and headers
	headTime       = 30 * time.Second
	dialTime       = 30 * time.Second
	maxDenials     = 100 // denials that are remembered
)

// Denial is a refused host, recorded once.
type Denial struct {
	Host string // host and port
	Rule string
}

// Proxy serves connections. Its methods are safe for concurrent use.
type Proxy struct {
	Policy *policy.Matcher
	// Resolve resolves a name; by default it uses the system's resolver.
	Resolve func(ctx context.Context, name string) ([]netip.Addr, error)
	// Dial connects to an address; by default it uses net.Dialer.
	Dial func(ctx context.Context, to netip.AddrPort) (net.Conn, error)

	mu      sync.Mutex
	denials []Denial
}

// Serve serves until the listener is closed, then closes all open connections.
func (p *Proxy) Serve(l net.Listener) error {
	ctx, stop := context.WithCancel(context.Background())
	var open sync.WaitGroup
	defer open.Wait()
	defer stop()
	slots := make(chan struct{}, maxConnections)
	for {
		c, err := l.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			var slow net.Error
			if errors.As(err, &slow) {
				continue
			}
			return err
		}
		slots <- struct{}{}
		open.Go(func() {
			defer func() { <-slots }()
			defer func() { _ = c.Close() }()
			cut := context.AfterFunc(ctx, func() { _ = c.Close() })
			defer cut()
			p.serve(ctx, c)
		})
	}
}

// Denials returns the refused hosts in order, each once.
func (p *Proxy) Denials() []Denial {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.denials)
}

func (p *Proxy) serve(ctx context.Context, c net.Conn) {
	_ = c.SetReadDeadline(time.Now().Add(headTime))
	in := bufio.NewReaderSize(c, 4096)
	first, err := in.Peek(1)
	if err != nil {
		return
	}
	if first[0] == 5 {
		p.socks(ctx, c, in)
	} else {
		p.http(ctx, c, in)
	}
}

// errDenied is a refusal by the policy.
type errDenied struct{ host, rule string }

func (e errDenied) Error() string {
	return fmt.Sprintf("the sandbox blocks %s: %s; to allow it, add it to networkPolicy.allow of sandbox.json, or ask the user", e.host, e.rule)
}

// connect checks a host, which is a name or an address, and dials it.
func (p *Proxy) connect(ctx context.Context, host string, port uint16) (net.Conn, error) {
	at := net.JoinHostPort(host, strconv.Itoa(int(port)))
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	if port == 0 {
		return nil, p.deny(at, "port 0 is not valid")
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		if v := p.Policy.Address(addr, nil); !v.Allowed {
			return nil, p.deny(at, v.Rule)
		}
		return p.dial(ctx, netip.AddrPortFrom(addr.Unmap(), port))
	}
	name, err := policy.CanonicalName(host)
	if err != nil {
		return nil, p.deny(at, "not a domain name")
	}
	// Do not resolve a name that is not allowed, even if its address might be:
	// the DNS query itself could leak data.
	if v := p.Policy.Name(name); !v.Allowed {
		return nil, p.deny(at, v.Rule)
	}
	addrs, err := p.lookup(ctx, name)
	if err != nil {
		return nil, err
	}
	last := fmt.Errorf("%s has no address", name)
	for _, addr := range addrs {
		if v := p.Policy.Address(addr, []string{name}); !v.Allowed {
			last = p.deny(at, v.Rule+" ("+addr.String()+")")
			continue
		}
		c, err := p.dial(ctx, netip.AddrPortFrom(addr.Unmap(), port))
		if err == nil {
			return c, nil
		}
		last = err
	}
	return nil, last
}

func (p *Proxy) lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	if p.Resolve != nil {
		return p.Resolve(ctx, name)
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
}

func (p *Proxy) dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	if p.Dial != nil {
		return p.Dial(ctx, to)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", to.String())
}

func (p *Proxy) deny(host, rule string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := Denial{Host: host, Rule: rule}
	if len(p.denials) < maxDenials && !slices.Contains(p.denials, d) {
		p.denials = append(p.denials, d)
	}
	return errDenied{host, rule}
}

// splice copies in both directions until both are done.
func splice(inside net.Conn, buffered *bufio.Reader, outside net.Conn) {
	_ = inside.SetReadDeadline(time.Time{})
	var both sync.WaitGroup
	both.Go(func() {
		// Write the buffered bytes first; after that io.Copy can use the
		// kernel's splice.
		n := buffered.Buffered()
		ahead, _ := buffered.Peek(n)
		if _, err := outside.Write(ahead); err == nil {
			_, _ = io.Copy(outside, inside)
		}
		closeWrite(outside)
	})
	_, _ = io.Copy(inside, outside)
	closeWrite(inside)
	both.Wait()
}

func closeWrite(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
		return
	}
	_ = c.Close()
}
