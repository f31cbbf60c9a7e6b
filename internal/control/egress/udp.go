package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
	"gvisor.dev/gvisor/pkg/waiter"

	"aloft/internal/policy"
)

// flowIdle is the idle timeout of a UDP flow.
const flowIdle = time.Minute

// maxDatagram is the size limit of UDP in bytes.
const maxDatagram = 64 << 10

// acceptUDP handles the first datagram of a flow. If it returns false, the
// stack reports the port as closed.
func (g *Gateway) acceptUDP(r *udp.ForwarderRequest) bool {
	to := destination(r.ID())
	names := g.names.lookup(to.Addr())
	verdict := g.judgeDatagrams(to.Addr(), names)
	rec := newRecord("udp", to, names, verdict)
	dns := to.Port() == dnsPort
	if !dns && !verdict.Allowed {
		g.ledger.add(rec)
		return false
	}
	if g.flows.Add(1) > maxFlows || g.ctx.Err() != nil {
		g.flows.Add(-1)
		return true // drop the datagram, as a full queue does
	}
	var wq waiter.Queue
	ep, err := r.CreateEndpoint(&wq)
	if err != nil {
		g.flows.Add(-1)
		return true
	}
	inside := gonet.NewUDPConn(&wq, ep)
	g.working.Go(func() {
		defer g.flows.Add(-1)
		if dns {
			g.answerDatagrams(inside, flowQueries)
			return
		}
		defer func() { _ = inside.Close() }()
		g.flow(inside, to, rec)
	})
	return true
}

// judgeDatagrams returns the verdict on a UDP flow. Rules with domains do not
// allow a flow, because its server name cannot be read (QUIC encrypts it).
func (g *Gateway) judgeDatagrams(addr netip.Addr, names []string) policy.Verdict {
	v := g.judge(addr, names)
	if m := g.policy.Load(); v.Allowed && m.Mode() == policy.List && !m.ByAddress(addr) {
		return policy.Verdict{Rule: "mode list: UDP needs a rule with an address"}
	}
	return v
}

// flow carries datagrams both ways until the flow is idle.
func (g *Gateway) flow(inside *gonet.UDPConn, to netip.AddrPort, rec *record) {
	conn, err := g.dialer.DialContext(g.ctx, "udp", to.String())
	if err != nil {
		rec.fail(reason(err))
		g.ledger.add(rec)
		return
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(g.ctx, func() {
		_ = inside.SetDeadline(time.Unix(1, 0))
		_ = conn.SetDeadline(time.Unix(1, 0))
	})
	defer stop()
	g.ledger.begin(rec)
	var last atomic.Int64
	last.Store(time.Now().UnixNano())
	allowed := func() bool { return g.judgeDatagrams(to.Addr(), g.names.lookup(to.Addr())).Allowed }
	var both sync.WaitGroup
	both.Go(func() { g.pump(inside, conn, &rec.received, &last, allowed) })
	g.pump(conn, inside, &rec.sent, &last, allowed)
	both.Wait()
	g.ledger.end(rec)
}

// pump carries datagrams in one direction while the flow is allowed and either
// direction is active.
func (g *Gateway) pump(dst, src net.Conn, count, last *atomic.Int64, allowed func() bool) {
	buf := make([]byte, maxDatagram)
	checked := time.Now()
	for {
		// Check ctx after setting the deadline, because that may overwrite the
		// deadline with which Close ends the read.
		if src.SetReadDeadline(time.Unix(0, last.Load()).Add(flowIdle)) != nil || g.ctx.Err() != nil {
			return
		}
		n, err := src.Read(buf)
		if isTimeout(err) && time.Since(time.Unix(0, last.Load())) < flowIdle {
			continue // the other direction was active meanwhile
		}
		if err != nil {
			return
		}
		now := time.Now()
		last.Store(now.UnixNano())
		if now.Sub(checked) > time.Second { // the policy may have changed
			if checked = now; !allowed() {
				return
			}
		}
		if w, err := dst.Write(buf[:n]); err == nil {
			count.Add(int64(w))
		}
	}
}

func isTimeout(err error) bool {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return true
	}
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}
