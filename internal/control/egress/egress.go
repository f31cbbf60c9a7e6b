// Package egress is a machine's way out. A [Gateway] ends the machine's
// packets in a TCP/IP stack of its own in user mode, answers its name lookups,
// judges each connection by a [policy.Network], and dials out from the host as
// any program would: nothing is routed, and the host needs no firewall rule.
//
// A gateway lives in a process of its own, so that neither a restart nor the
// death of the server cuts a connection. [Serve] is that process's end of its
// control socket and [Client] the server's.
//
// What a machine sends is hostile: the stack, the lookups and the first bytes
// of a connection are parsed within bounds, and what is logged of them is made
// of addresses and canonical domains. It does not look into TLS.
//
// It is over 2,000 lines because each protocol that names a server, and the log
// of what came of it, is read and kept here, outside of the machine.
package egress

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"aloft/internal/policy"
)

// The addresses on the link between a machine and its gateway. Every machine
// has the same: no two share a link.
var (
	GatewayV4 = netip.MustParseAddr("172.30.0.1")
	GatewayV6 = netip.MustParseAddr("fd00:a10f::1")
	MachineV4 = netip.MustParseAddr("172.30.0.2")
	MachineV6 = netip.MustParseAddr("fd00:a10f::2")
)

// MTU is the size of the link's packets, in bytes. Large ones make it fast.
const MTU = 65500

// Bounds on what one machine may hold of its gateway.
const (
	maxConns   = 4096 // TCP connections, also those that are being made
	maxDialing = 1024 // TCP connections that are being made
	maxFlows   = 1024 // UDP: pairs of address and port
	maxLookups = 256  // at once
)

// Config is what a [Gateway] is made of.
type Config struct {
	// Device is an open TAP device, without packet information and with the
	// header that says which checksums are left to its reader (IFF_VNET_HDR, 10
	// bytes, TUN_F_CSUM and if at all TUN_F_TSO4 and TUN_F_TSO6). The gateway
	// owns it.
	Device *os.File
	Policy policy.Network
	// Lookup resolves a name to addresses of "ip4" or "ip6"; nil asks the
	// host's resolver. An error that is a [net.DNSError] with IsNotFound means
	// that there are none.
	Lookup func(ctx context.Context, network, name string) ([]netip.Addr, error)
	Log    *Log         // of connections, which the gateway owns; nil keeps none
	Logger *slog.Logger // nil discards
}

// Gateway is the other end of one machine's link. Its methods are safe for
// concurrent use.
type Gateway struct {
	conf   Config
	log    *slog.Logger
	stack  *stack.Stack
	policy atomic.Pointer[policy.Matcher]
	names  *names
	ledger *ledger
	host   hostAddresses

	dialer  net.Dialer
	conns   atomic.Int64
	flows   atomic.Int64
	lookups chan struct{}

	ctx     context.Context
	stop    context.CancelFunc
	working sync.WaitGroup

	mu   sync.Mutex
	open map[*connection]struct{}
}

// New starts a gateway. It must be closed.
func New(conf Config) (*Gateway, error) {
	g, err := newGateway(conf)
	if err != nil {
		return nil, err
	}
	link, err := openLink(conf.Device)
	if err == nil {
		err = g.startStack(link)
	}
	if err != nil {
		g.stop()
		return nil, errors.Join(fmt.Errorf("gateway: %w", err), conf.Log.Close())
	}
	return g, nil
}

// newGateway makes all of a gateway but its stack.
func newGateway(conf Config) (*Gateway, error) {
	m, err := conf.Policy.Compile()
	if err != nil {
		return nil, errors.Join(err, conf.Log.Close())
	}
	if conf.Logger == nil {
		conf.Logger = slog.New(slog.DiscardHandler)
	}
	if conf.Lookup == nil {
		conf.Lookup = net.DefaultResolver.LookupNetIP
	}
	g := &Gateway{
		conf: conf, log: conf.Logger,
		names:   newNames(),
		ledger:  newLedger(conf.Log),
		dialer:  net.Dialer{Timeout: dialTimeout},
		lookups: make(chan struct{}, maxLookups),
		open:    map[*connection]struct{}{},
	}
	g.policy.Store(m)
	g.ctx, g.stop = context.WithCancel(context.Background())
	return g, nil
}

// SetPolicy judges from now on by another policy, and cuts the connections
// that it does not allow.
func (g *Gateway) SetPolicy(n policy.Network) error {
	m, err := n.Compile()
	if err != nil {
		return err
	}
	g.policy.Store(m)
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.open {
		// Those under way were made for the names that their address had then.
		if v := g.judge(c.to.Addr(), c.names); !v.Allowed {
			c.refuse(v.Rule)
		} else if err := c.rejudge(m); err != nil {
			c.refuse(err.Error())
		}
	}
	return nil
}

// judge applies the policy, and the one rule that no policy can know: the
// host's own addresses are the host, whatever range they lie in.
func (g *Gateway) judge(addr netip.Addr, names []string) policy.Verdict {
	m := g.policy.Load()
	v := m.Address(addr, names)
	if v.Allowed && g.host.has(addr) && !m.Opened(addr) {
		return policy.Verdict{Rule: "always blocked: an address of the host"}
	}
	return v
}

// Close cuts every connection and returns when all is over.
func (g *Gateway) Close() error {
	g.stop()
	g.mu.Lock()
	for c := range g.open {
		c.cut()
	}
	g.mu.Unlock()
	g.stack.Close()
	g.stack.Wait() // it closes the device
	g.working.Wait()
	return g.conf.Log.Close()
}

// hostTTL is how long the list of the host's addresses is believed.
const hostTTL = 10 * time.Second

// hostAddresses are the addresses of the host's interfaces.
type hostAddresses struct {
	mu   sync.Mutex
	read time.Time
	all  map[netip.Addr]bool
}

func (h *hostAddresses) has(addr netip.Addr) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.read) > hostTTL {
		all := map[netip.Addr]bool{}
		if list, err := net.InterfaceAddrs(); err == nil {
			for _, a := range list {
				if p, err := netip.ParsePrefix(a.String()); err == nil {
					all[p.Addr().Unmap().WithZone("")] = true
				}
			}
			h.all, h.read = all, time.Now()
		}
	}
	return h.all[addr.Unmap().WithZone("")]
}
