package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"
)

// dialTimeout is the timeout for connecting to the remote end.
const dialTimeout = 30 * time.Second

// destination returns the host's address for a packet's destination. The
// machine's loopback never leaves the machine; the host's loopback, if the
// operator allows it, is reached at the gateway's address.
func destination(id stack.TransportEndpointID) netip.AddrPort {
	addr, _ := netip.AddrFromSlice(id.LocalAddress.AsSlice())
	return netip.AddrPortFrom(fromMachine(addr.Unmap()), id.LocalPort)
}

var (
	loopbackV4 = netip.MustParseAddr("127.0.0.1")
	loopbackV6 = netip.IPv6Loopback()
)

// fromMachine translates an address that the machine uses to the corresponding
// address of the host.
func fromMachine(addr netip.Addr) netip.Addr {
	switch addr {
	case GatewayV4:
		return loopbackV4
	case GatewayV6:
		return loopbackV6
	}
	return addr
}

// toMachine translates an address of the host to the corresponding address that
// the machine uses.
func toMachine(addr netip.Addr) netip.Addr {
	switch addr {
	case loopbackV4:
		return GatewayV4
	case loopbackV6:
		return GatewayV6
	}
	return addr
}

// acceptTCP handles a connection that the machine opens. It dials the remote
// end first, so that a connection that the remote end refuses is refused to the
// machine too.
func (g *Gateway) acceptTCP(r *tcp.ForwarderRequest) {
	g.working.Add(1)
	defer g.working.Done()
	if g.conns.Add(1) > maxConns || g.ctx.Err() != nil {
		g.conns.Add(-1)
		r.Complete(true)
		return
	}
	defer g.conns.Add(-1)
	to := destination(r.ID())
	if to.Port() == dnsPort {
		if inside := g.complete(r); inside != nil {
			g.serveStreamDNS(inside)
		}
		return
	}
	names := g.names.lookup(to.Addr())
	verdict := g.judge(to.Addr(), names)
	rec := newRecord("tcp", to, names, verdict)
	if !verdict.Allowed {
		r.Complete(true)
		g.ledger.add(rec)
		return
	}
	c := &connection{g: g, to: to, names: names, rec: rec}
	outside, err := g.dialer.DialContext(g.ctx, "tcp", to.String())
	if err != nil {
		r.Complete(true)
		rec.fail(reason(err))
		g.ledger.add(rec)
		return
	}
	c.outside = outside.(*net.TCPConn)
	if c.inside = g.complete(r); c.inside == nil {
		_ = c.outside.SetLinger(0) // reset the remote end too, since the machine has given up
		_ = outside.Close()
		return
	}
	g.ledger.begin(rec)
	c.run()
	g.ledger.end(rec)
}

// complete finishes the handshake with the machine. It returns nil if that
// fails.
func (g *Gateway) complete(r *tcp.ForwarderRequest) *inside {
	var wq waiter.Queue
	ep, err := r.CreateEndpoint(&wq)
	r.Complete(err != nil)
	if err != nil {
		return nil
	}
	if g.conns.Load() > manyConns {
		ep.SocketOptions().SetReceiveBufferSize(leastBuffer, true)
		ep.SocketOptions().SetSendBufferSize(leastBuffer, true)
	}
	ep.SocketOptions().SetDelayOption(false)
	ep.SocketOptions().SetKeepAlive(true)
	return &inside{TCPConn: gonet.NewTCPConn(&wq, ep), ep: ep}
}

// inside is the machine's end of a connection.
type inside struct {
	*gonet.TCPConn
	ep tcpip.Endpoint
}

// Read implements [io.Reader]. It returns a reset as an error, not as the end
// of input, even if another caller has already consumed the stack's error.
func (i *inside) Read(b []byte) (int, error) {
	n, err := i.TCPConn.Read(b)
	if errors.Is(err, io.EOF) && tcp.EndpointState(i.ep.State()) == tcp.StateError {
		err = syscall.ECONNRESET
	}
	return n, err
}

// abort resets the connection.
func (i *inside) abort() { i.ep.Abort() }

// A connection joins the machine's end and the remote end.
type connection struct {
	g       *Gateway
	to      netip.AddrPort
	names   []string
	rec     *record
	inside  *inside
	outside *net.TCPConn
	once    sync.Once

	replied   *answerer                   // captures the first bytes from the remote end; set if followed is true
	followed  bool                        // the machine's data is checked
	lastHello atomic.Pointer[clientHello] // the last greeting that was judged
}

// run copies in both directions until both have ended. It forwards the end of
// each direction as an end, and a reset as a reset.
func (c *connection) run() {
	c.g.mu.Lock()
	c.g.open[c] = struct{}{}
	c.followed = c.g.policy.Load().Named()
	c.g.mu.Unlock()
	c.replied = newAnswerer(c.outside)
	if c.g.ctx.Err() != nil {
		c.cut()
	}
	// The policy may have changed since the connection was judged.
	if v := c.g.judge(c.to.Addr(), c.names); !v.Allowed {
		c.refuse(v.Rule)
	}
	var both sync.WaitGroup
	both.Go(func() { c.fromOutside() })
	c.fromInside()
	both.Wait()
	c.g.mu.Lock()
	delete(c.g.open, c)
	c.g.mu.Unlock()
	_ = c.inside.Close()
	_ = c.outside.Close()
}

func (c *connection) fromOutside() {
	defer c.replied.markKnown()
	src := io.Reader(c.outside)
	if c.followed {
		src = c.replied
	}
	err := copyCounted(c.inside, src, &c.rec.received)
	if err != nil {
		c.fail(err)
		return
	}
	_ = c.inside.CloseWrite()
}

func (c *connection) fromInside() {
	if c.followed {
		refused, failed := c.follow()
		if refused != nil {
			c.refuse(refused.Error())
			return
		}
		if failed != nil {
			c.fail(failed)
			return
		}
	}
	err := copyCounted(c.outside, c.inside, &c.rec.sent)
	if err != nil {
		c.fail(err)
		return
	}
	_ = c.outside.CloseWrite()
}

// refuse cuts the connection because of a policy rule.
func (c *connection) refuse(rule string) {
	c.rec.refuse(rule)
	c.cut()
}

// fail cuts the connection because of an error of either end.
func (c *connection) fail(err error) {
	c.rec.fail(reason(err))
	c.cut()
}

// cut resets both ends.
func (c *connection) cut() {
	c.once.Do(func() {
		_ = c.outside.SetLinger(0)
		_ = c.outside.Close()
		c.inside.abort()
	})
}

// reason returns an error as text for users. It omits paths and text from the
// remote end.
func reason(err error) string {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno.Error()
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return "timed out"
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) {
		return "closed"
	}
	return "the connection was lost"
}
