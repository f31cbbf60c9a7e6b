// Package egress is a machine's connection to the network. A [Gateway]
// terminates the machine's packets in a user-mode TCP/IP stack, answers its
// name lookups, checks each connection against a [policy.Network], and dials
// out from the host like any other program. Nothing is routed, and the host
// needs no firewall rules.
//
// Each gateway runs in its own process, so that connections survive a restart
// or crash of the server. [Serve] is that process's end of the control socket,
// and [Client] the server's end.
//
// Everything that a machine sends is hostile: the stack, lookups and the first
// bytes of connections are parsed within limits, and only addresses and
// canonical domains are logged. TLS is not decrypted.
//
// The stack is gVisor's. Existing proxies such as gvisor-tap-vsock were not
// suitable: they forward all connections, and have no policy by name, no
// connection log and no process that outlives the server.
//
// The package is over 2,000 lines long because it parses each protocol that
// names a server, and keeps the connection log outside of the machine.
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

// Addresses on the link between a machine and its gateway. They are the same
// for every machine, since each machine has its own link.
var (
	GatewayV4 = netip.MustParseAddr("172.30.0.1")
	GatewayV6 = netip.MustParseAddr("fd00:a10f::1")
	MachineV4 = netip.MustParseAddr("172.30.0.2")
	MachineV6 = netip.MustParseAddr("fd00:a10f::2")
)

// MTU is the MTU of the link in bytes. Large packets make the link fast.
const MTU = 65500

// Limits on the resources that one machine may use in its gateway.
const (
	maxConns   = 4096 // TCP connections, including those being opened
	maxDialing = 1024 // TCP connections being opened
	maxFlows   = 1024 // UDP flows: pairs of address and port
	maxLookups = 256  // concurrent name lookups
)

// Config holds the settings of a [Gateway].
type Config struct {
	// Device is an open TAP device without packet information and with a header
	// for checksum and segmentation offload (IFF_VNET_HDR, 10 bytes, TUN_F_CSUM
	// and optionally TUN_F_TSO4 and TUN_F_TSO6). The gateway takes ownership.
	Device *os.File
	Policy policy.Network
	// Lookup resolves a name to addresses of network "ip4" or "ip6"; nil means
	// the host's resolver. A [net.DNSError] with IsNotFound means that the name
	// has no address of that network.
	Lookup func(ctx context.Context, network, name string) ([]netip.Addr, error)
	Log    *Log         // connection log, owned by the gateway; nil disables it
	Logger *slog.Logger // nil means no logging
}

// Gateway is the host's end of one machine's link. Its methods are safe for
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

// New starts a gateway. The caller must close it.
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

// newGateway returns a gateway without its network stack.
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

// SetPolicy replaces the policy and cuts open connections that the new policy
// refuses.
func (g *Gateway) SetPolicy(n policy.Network) error {
	m, err := n.Compile()
	if err != nil {
		return err
	}
	g.policy.Store(m)
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.open {
		// Check open connections against the names that their address had when
		// they were opened.
		if v := g.judge(c.to.Addr(), c.names); !v.Allowed {
			c.refuse(v.Rule)
		} else if err := c.rejudge(m); err != nil {
			c.refuse(err.Error())
		}
	}
	return nil
}

// judge applies the policy and one more rule, which the policy cannot express:
// the host's own addresses count as the host, whatever range contains them.
func (g *Gateway) judge(addr netip.Addr, names []string) policy.Verdict {
	m := g.policy.Load()
	v := m.Address(addr, names)
	if v.Allowed && g.host.has(addr) && !m.Opened(addr) {
		return policy.Verdict{Rule: "always blocked: an address of the host"}
	}
	return v
}

// Close cuts every connection and returns when all goroutines have ended.
func (g *Gateway) Close() error {
	g.stop()
	g.mu.Lock()
	for c := range g.open {
		c.cut()
	}
	g.mu.Unlock()
	g.stack.Close()
	g.stack.Wait() // the stack closes the device
	g.working.Wait()
	return g.conf.Log.Close()
}

// hostTTL is how long the host's addresses are cached.
const hostTTL = 10 * time.Second

// hostAddresses caches the addresses of the host's interfaces.
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
