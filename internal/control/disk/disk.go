// Package disk keeps machines from filling the disk that they share with the
// journal. A [Guard] polls the free space, which is cheap. It measures a
// machine only if enough space has been used since the last measurement for the
// machine to be over its limit, or if the disk is low. It stops machines that
// exceed their limit, or that fill the disk when it is low.
//
// The guard keeps a reserve file, which it deletes when the disk is full, so
// that the store can still write: runs end with a reason, and agents can be
// deleted. It creates the reserve again when there is space.
//
// The guard measures instead of setting quotas; docs/decisions/0003 explains
// why.
package disk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"aloft/internal/control/machine"
	"aloft/internal/fault"
)

// Config holds the settings of a [Guard].
type Config struct {
	Dir   string // a folder on the watched file system, for the reserve
	Limit int64  // limit of each machine in bytes; 0 means no limit, [Half] half of the disk
	// Machines returns everything that uses disk space and can be stopped:
	// machines, running or not, and builds.
	Machines func(ctx context.Context) ([]Holder, error)
	// Stop ends the agent's run with the given reason, and stops the machine.
	// It must not wait for the store.
	Stop func(ctx context.Context, id string, why error) error
	// Outside returns how many bytes the machine's agent has on the disk outside of
	// the machine: a new measurement if fresh is true, otherwise the last one. It must
	// not wait for the store. nil means none.
	Outside func(ctx context.Context, id string, fresh bool) int64
	Logger  *slog.Logger
}

// A Holder uses part of the disk, such as a [machine.Measured].
type Holder interface {
	ID() string
	Running() bool
	DiskBytes(ctx context.Context) (int64, error)
}

// Half is a limit of half the file system, so that no single machine can fill
// it.
const Half = -1

// Guard watches one file system. Its methods are safe for concurrent use.
type Guard struct {
	Config
	space   func() (free, total int64, err error) // in bytes; a shortage of inodes counts as a shortage of bytes
	floor   int64                                 // the disk is low if fewer bytes are free
	reserve reserve

	mu             sync.Mutex
	uses           map[string]*use // disk usage by machine; nil before the first poll
	free           int64           // free bytes at the last poll
	consumed       int64           // sum of all decreases of the free space
	listedAt       time.Time       // when the machines were last listed
	listedConsumed int64           // value of consumed at that time
	outsideAt      time.Time       // when the agents' files outside of machines were last measured
	warned         bool
}

// use records the disk usage of a machine.
type use struct {
	bytes      int64
	initial    int64         // usage when the machine was started, or the minimum since
	beforeLow  int64         // usage when the disk was last not low
	outside    int64         // bytes of the agent outside of the machine when the disk was last not low
	consumed   int64         // Guard.consumed at the last measurement
	measuredAt time.Time     // time of the last measurement; zero if never measured
	duration   time.Duration // duration of the last measurement
	isOlder    bool          // the machine existed before the guard, so its initial usage is unknown
	wasRunning bool          // whether the machine ran at the last poll
}

// Fractions of the file system, and their limits in bytes.
const (
	floorShare, leastFloor, mostFloor       = 20, 8 << 20, 512 << 20
	reserveShare, leastReserve, mostReserve = 64, 4 << 20, 64 << 20
)

// Intervals of polling and measuring.
const (
	askEvery     = 250 * time.Millisecond // interval of statfs calls
	lookEvery    = 2 * time.Second        // interval of listing the machines
	measureEvery = 30 * time.Second       // maximum interval; needed because space that one machine frees can hide another's growth
	measureSoon  = 2 * time.Second        // minimum interval if all measurements together are fast
	measureShare = 4                      // minimum interval as a multiple of a measurement's duration
	outsideTime  = 2 * time.Second        // timeout for measuring an agent's files outside of its machine
	measureRest  = 50                     // like measureShare, when nothing requires a measurement
)

// New returns a guard. It creates the reserve if there is enough space.
func New(c Config) (*Guard, error) {
	g := &Guard{Config: c}
	g.space = func() (free, total int64, err error) { return space(c.Dir) }
	return g, g.begin()
}

// space returns the free bytes and the size of the file system that contains a
// folder. A shortage of inodes counts as a shortage of bytes.
func space(dir string) (free, total int64, err error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, 0, fmt.Errorf("measure the free space of %s: %w", dir, err)
	}
	free, total = int64(fs.Bavail)*fs.Bsize, int64(fs.Blocks)*fs.Bsize
	if fs.Files > 0 { // running out of inodes is as bad as running out of bytes
		free = min(free, int64(fs.Ffree)*(total/int64(fs.Files)))
	}
	return free, total, nil
}

// floorOf returns the free space in bytes below which a file system is low.
func floorOf(total int64) int64 { return min(max(total/floorShare, leastFloor), mostFloor) }

func (g *Guard) begin() error {
	free, total, err := g.space()
	if err != nil {
		return err
	}
	g.free = free
	if g.Limit == Half {
		g.Limit = total / 2
	}
	g.floor = floorOf(total)
	g.reserve = reserve{path: filepath.Join(g.Dir, "reserve"), size: min(max(total/reserveShare, leastReserve), mostReserve)}
	g.takeReserve(free)
	return nil
}

// takeReserve creates the reserve if the disk is not low afterwards.
func (g *Guard) takeReserve(free int64) {
	if g.reserve.isComplete() || free < g.floor+g.reserve.size {
		return
	}
	if err := g.reserve.take(); err != nil {
		g.Logger.Warn("cannot create the file that reserves space for a full disk", "error", err)
	}
}

// Run watches the disk until ctx ends.
func (g *Guard) Run(ctx context.Context) error {
	g.look(ctx, false)
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			g.look(ctx, false)
		}
	}
}

// Room returns a fault if the disk is too full to create a machine.
func (g *Guard) Room() error { return room(g.space()) }

// Room returns a fault if the file system of a folder is too full to create a machine.
func Room(dir string) error { return room(space(dir)) }

// Low returns how many bytes are free on the file system of a folder, and whether it is
// low. A shortage of inodes counts as a shortage of bytes.
func Low(dir string) (free int64, low bool, err error) {
	free, total, err := space(dir)
	return free, err == nil && free < floorOf(total), err
}

func room(free, total int64, err error) error {
	if err != nil || free >= floorOf(total) {
		return nil //nolint:nilerr // creating the machine will report the error
	}
	return fault.Exhausted("cannot create a machine: the disk is nearly full, %d MiB are free", free>>20).Named("disk_full").
		Hint("delete agents, or free space or inodes (df -i) where the server keeps its data, and send a follow-up")
}

// fullPatience is the timeout of [Guard.Full].
const fullPatience = 10 * time.Second

// Full is called by a store that failed to write because the disk is full. It
// stops the machine that filled the disk, releases the reserve, and reports
// whether a retry may succeed.
func (g *Guard) Full() bool {
	ctx, cancel := context.WithTimeout(context.Background(), fullPatience)
	defer cancel()
	stopped := g.look(ctx, true)
	released := g.reserve.release()
	free, _, err := g.space()
	return stopped || released || err == nil && free > someRoom // a poll may just have freed the space
}

// someRoom is how many free bytes make a retry worthwhile.
const someRoom = 1 << 20

// look polls the file system, measures machines as needed, and reports whether
// it has stopped one.
func (g *Guard) look(ctx context.Context, full bool) (stopped bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	free, _, err := g.space()
	if err != nil {
		g.Logger.Error("cannot check the disk", "error", err)
		return false
	}
	g.consumed += max(0, g.free-free)
	g.free = free
	low := full || free < g.floor
	if !low {
		g.warned = false
		g.takeReserve(free)
		if g.consumed == g.listedConsumed && time.Since(g.listedAt) < lookEvery {
			return false
		}
	}
	g.listedAt, g.listedConsumed = time.Now(), g.consumed
	machines, err := g.running(ctx)
	if err != nil {
		g.Logger.Error("cannot list the machines", "error", err)
		return false
	}
	for _, m := range machines {
		if g.measure(ctx, m, low) && g.isOver(m.ID()) {
			used := g.uses[m.ID()].bytes
			over := machine.DiskLimitError{Used: used, Limit: g.Limit}
			stopped = g.stop(ctx, m, fault.Exhausted("%v", over).Named("disk_limit").Because(over).
				Hint("send a follow-up that asks to remove what is not needed, or raise machine.disk_bytes")) || stopped
		}
	}
	if low && !stopped {
		stopped = g.stopGreediest(ctx, machines, free, full)
	}
	if low && free < g.floor/4 { // leave space for writes before the next poll
		g.reserve.release()
	}
	return stopped
}

// Machines returns the machines of a runtime whose disks are on this host.
// Builds are included.
func Machines(ctx context.Context, r machine.Runtime) ([]Holder, error) {
	ids, err := r.List(ctx)
	if err != nil {
		return nil, err
	}
	var all []Holder
	for _, id := range ids {
		m, err := r.Open(ctx, id)
		if err != nil {
			continue // the machine is being destroyed
		}
		if m, ok := m.(machine.Measured); ok {
			all = append(all, m)
		}
	}
	return all, nil
}

// running returns the running machines. It forgets machines that are gone, and
// measures those that have stopped.
func (g *Guard) running(ctx context.Context) (running []Holder, err error) {
	all, err := g.Machines(ctx)
	if err != nil {
		return nil, err
	}
	known := make(map[string]*use, len(all))
	for _, m := range all {
		u := g.uses[m.ID()]
		if u == nil { // a new machine starts at zero, since it may fill its disk quickly
			u = &use{isOlder: g.uses == nil, outside: g.outside(ctx, m.ID(), false)}
		}
		known[m.ID()] = u
		if m.Running() {
			running, u.wasRunning = append(running, m), true
		} else if u.wasRunning {
			g.allowAgain(ctx, m, u)
		}
	}
	g.uses = known
	return running, nil
}

// allowAgain measures a stopped machine. The result is the machine's initial
// usage when it is started again.
func (g *Guard) allowAgain(ctx context.Context, m Holder, u *use) {
	u.wasRunning = false
	start := time.Now()
	n, err := m.DiskBytes(ctx)
	if err != nil {
		return // the machine is being destroyed
	}
	u.bytes, u.initial, u.beforeLow, u.isOlder = n, n, n, false
	u.consumed, u.measuredAt, u.duration = g.consumed, start, time.Since(start)
}

// measure measures a machine if it is due, and reports whether it did.
func (g *Guard) measure(ctx context.Context, m Holder, low bool) bool {
	u := g.uses[m.ID()]
	if !u.measuredAt.IsZero() {
		since := time.Since(u.measuredAt)
		mayExceed := g.Limit > 0 && u.bytes+g.consumed-u.consumed > g.allowed(u)
		switch {
		case low && since < u.duration:
			return false
		case !low && (since < measureShare*u.duration || !mayExceed && since < g.patience(u)):
			return false
		}
	}
	start := time.Now()
	n, err := m.DiskBytes(ctx)
	if errors.Is(err, machine.ErrTooManyFiles) {
		// Stop the machine, because these files could hide any amount of data,
		// and measuring them takes long.
		g.stop(ctx, m, fault.Exhausted("the machine was stopped: its processes held more files open than the server can count").Named("disk_limit").
			Hint("send a follow-up that asks to keep fewer files open"))
		return false
	}
	if err != nil {
		if ctx.Err() == nil {
			g.Logger.Error("cannot measure a machine's disk", "machine", m.ID(), "error", err)
		}
		return false
	}
	if u.isOlder {
		u.initial, u.beforeLow, u.isOlder = n, n, false
	}
	u.initial = min(u.initial, n)
	u.bytes, u.consumed, u.measuredAt, u.duration = n, g.consumed, start, time.Since(start)
	if !low {
		u.beforeLow, u.outside = n, g.outside(ctx, m.ID(), false)
	}
	return true
}

func (g *Guard) outside(ctx context.Context, id string, fresh bool) int64 {
	if g.Outside == nil {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, outsideTime)
	defer cancel()
	return g.Outside(ctx, id, fresh)
}

// patience returns how long a machine may go unmeasured if nothing requires a
// measurement.
func (g *Guard) patience(u *use) time.Duration {
	all := time.Duration(0)
	for _, other := range g.uses {
		all += other.duration
	}
	return min(max(measureEvery, measureRest*u.duration), max(measureSoon, measureRest*all))
}

// allowed returns the maximum usage of the machine. A machine that started
// above its limit may grow a little more, so that a user can clean it up.
func (g *Guard) allowed(u *use) int64 {
	const slack = 32
	return max(g.Limit, u.initial+g.Limit/slack)
}

func (g *Guard) isOver(id string) bool {
	u := g.uses[id]
	return g.Limit > 0 && u.bytes > g.allowed(u)
}

// stopGreediest stops the machine that has grown most since the disk became low. If no
// machine has, it stops the machine of the agent whose other files have grown most. The
// growth must be at least a quarter of the floor. If less than that is free, any growth
// suffices.
func (g *Guard) stopGreediest(ctx context.Context, running []Holder, free int64, full bool) bool {
	least := g.floor / 4
	if full || free < least {
		least = 1
	}
	what := "it"
	greediest, most := g.mostGrown(running, least, func(m Holder, u *use) int64 { return u.bytes - u.beforeLow })
	if greediest == nil && time.Since(g.outsideAt) >= measureSoon {
		what = "its agent's artifacts and logs"
		greediest, most = g.mostGrown(running, least, func(m Holder, u *use) int64 { return g.outside(ctx, m.ID(), true) - u.outside })
		g.outsideAt = time.Now()
	}
	if greediest == nil {
		if !g.warned {
			g.warned = true
			g.Logger.Warn("the disk is nearly full, and no machine has filled it", "dir", g.Dir, "free", free)
		}
		return false
	}
	for id, u := range g.uses { // restart the count for all machines, so that no machine is blamed for earlier growth
		u.beforeLow, u.outside = u.bytes, g.outside(ctx, id, false)
	}
	return g.stop(ctx, greediest, fault.Exhausted("the machine was about to fill the server's disk: %s used %d MiB more, and %d MiB are left", what, most>>20, free>>20).Named("disk_limit").
		Hint("send a follow-up that asks to remove what is not needed, or delete the agent; machine.disk_bytes gives each machine a limit"))
}

// mostGrown returns the machine with the largest growth, or nil if all are below least.
func (g *Guard) mostGrown(running []Holder, least int64, growth func(Holder, *use) int64) (greediest Holder, most int64) {
	for _, m := range running {
		if n := growth(m, g.uses[m.ID()]); n >= max(least, most+1) {
			greediest, most = m, n
		}
	}
	return greediest, most
}

func (g *Guard) stop(ctx context.Context, m Holder, why error) bool {
	g.Logger.Warn("stopping a machine for its disk", "machine", m.ID(), "reason", why)
	if err := g.Stop(ctx, m.ID(), why); err != nil {
		g.Logger.Error("cannot stop a machine", "machine", m.ID(), "error", err)
		return false
	}
	g.allowAgain(ctx, m, g.uses[m.ID()])
	return true
}
