// Package tcpmem keeps machines from using up the memory that all TCP connections of the
// host share. The kernel limits it by net.ipv4.tcp_mem. If one machine takes it, the
// connections of the server and of other machines stall.
//
// A [Guard] polls how much of the memory is used, which is cheap. Only if it is scarce,
// the guard measures the machines, and stops the one that takes most, unless that is less
// than a fair share.
package tcpmem

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"aloft/internal/control/machine"
	"aloft/internal/fault"
)

// Config holds the settings of a [Guard].
type Config struct {
	// Machines returns the machines of this host, running or not.
	Machines func(ctx context.Context) ([]machine.SocketMeasured, error)
	// Stop ends the agent's run with the given reason, and stops the machine.
	Stop func(ctx context.Context, id string, why error) error
	// Host returns the TCP memory of the host; nil means [ReadHost].
	Host   func() (Host, error)
	Logger *slog.Logger
}

// Guard watches the host's TCP memory. Only Run may be called, once.
type Guard struct {
	Config
	warned bool
	next   time.Time // no measurement before this time
}

// Intervals of the guard.
const (
	pollEvery    = 250 * time.Millisecond // interval of reading the host's usage
	settleTime   = time.Second            // how long the kernel may take to free the memory of a stopped machine
	measureShare = 4                      // pause after a measurement, as a multiple of its duration
)

// New returns a guard.
func New(c Config) *Guard {
	if c.Host == nil {
		c.Host = ReadHost
	}
	return &Guard{Config: c}
}

// Host is the TCP memory of the host, in bytes.
type Host struct {
	Used     int64
	Low      int64 // the memory is scarce if more is used; the first value of tcp_mem
	Pressure int64 // the kernel slows down all connections if more is used; the second value
}

// Share returns how many bytes a machine may use even if the memory is scarce.
func (h Host) Share() int64 { return h.Pressure / 8 }

// ReadHost reads the TCP memory of the host from the kernel.
func ReadHost() (h Host, err error) {
	limits, err := os.ReadFile("/proc/sys/net/ipv4/tcp_mem")
	if err != nil {
		return h, err
	}
	stat, err := os.ReadFile("/proc/net/sockstat")
	if err != nil {
		return h, err
	}
	if _, err := fmt.Sscan(string(limits), &h.Low, &h.Pressure); err != nil { // the third value is the maximum
		return h, fmt.Errorf("tcp_mem %q: %w", limits, err)
	}
	page := int64(os.Getpagesize())
	h.Low, h.Pressure = h.Low*page, h.Pressure*page
	for line := range strings.Lines(string(stat)) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[0] == "TCP:" && fields[len(fields)-2] == "mem" {
			_, err = fmt.Sscan(fields[len(fields)-1], &h.Used)
			h.Used *= page
			return h, err
		}
	}
	return h, fmt.Errorf("no TCP memory in /proc/net/sockstat: %q", stat)
}

// Run watches the memory until ctx ends.
func (g *Guard) Run(ctx context.Context) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			g.look(ctx, now)
		}
	}
}

// look reads the host's usage, and stops a machine if the memory is scarce.
func (g *Guard) look(ctx context.Context, now time.Time) {
	h, err := g.Host()
	if err != nil {
		g.warn("cannot read how much memory TCP connections use", "error", err)
		return
	}
	if h.Used < h.Low {
		g.warned = false
		return
	}
	if now.Before(g.next) {
		return
	}
	begun := time.Now()
	greediest, most, err := g.greediest(ctx)
	g.next = now.Add(measureShare * time.Since(begun))
	switch {
	case ctx.Err() != nil:
	case err != nil:
		g.Logger.Error("cannot measure the memory of the machines' connections", "error", err)
	case most < h.Share():
		g.warn("TCP connections use nearly all of their memory (net.ipv4.tcp_mem), and no machine takes much of it", "used", h.Used, "most", most)
	default:
		g.stop(ctx, greediest, most, h)
		g.next = now.Add(settleTime)
	}
}

// warn logs once until the memory is no longer scarce.
func (g *Guard) warn(text string, args ...any) {
	if !g.warned {
		g.warned = true
		g.Logger.Warn(text, args...)
	}
}

// greediest returns the running machine whose connections use the most memory. A machine
// that holds too many files to be measured counts as using all of the memory.
func (g *Guard) greediest(ctx context.Context) (greediest machine.SocketMeasured, most int64, err error) {
	all, err := g.Machines(ctx)
	if err != nil {
		return nil, 0, err
	}
	var errs []error
	for _, m := range all {
		if !m.Running() {
			continue
		}
		n, err := m.SocketBytes(ctx)
		if errors.Is(err, machine.ErrTooManyFiles) {
			n, err = 1<<62, nil
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("machine %s: %w", m.ID(), err))
		}
		if n > most {
			greediest, most = m, n
		}
	}
	if greediest != nil {
		return greediest, most, nil
	}
	return nil, 0, errors.Join(errs...)
}

func (g *Guard) stop(ctx context.Context, m machine.SocketMeasured, bytes int64, h Host) {
	why := fault.Exhausted("the machine was stopped: data in its TCP connections took %d MiB of the %d MiB that all connections of the host share",
		min(bytes, h.Used)>>20, h.Pressure>>20).Named("socket_limit").
		Hint("send a follow-up that asks to read what connections receive, or raise net.ipv4.tcp_mem on the host")
	g.Logger.Warn("stopping a machine for the memory of its TCP connections", "machine", m.ID(), "reason", why)
	if err := g.Stop(ctx, m.ID(), why); err != nil {
		g.Logger.Error("cannot stop a machine", "machine", m.ID(), "error", err)
	}
}
