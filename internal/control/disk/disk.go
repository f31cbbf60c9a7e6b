// Package disk keeps machines from using up the disk that they share with the
// journal. A [Guard] asks the file system how much is free, which costs nothing,
// and measures a machine only when so much has gone since it was last measured
// that it could be over its limit, or when the disk runs low. It stops the
// machine that is over its limit, or that takes the last of the disk.
//
// A file of no use, the reserve, stands ready to be given up: what the store
// has to write when nothing is left finds room there, and so runs end with a
// reason and agents can be deleted. It is taken again when there is room.
//
// It measures, and sets no quota: docs/decisions/0003 says why.
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

// Config is what a [Guard] works with.
type Config struct {
	Dir   string // on the file system that is watched; the reserve lies in it
	Limit int64  // of each machine, in bytes; 0 is none but the disk itself, [Half] half of it
	// Machines returns what takes room: the machines, whether they run or not, and
	// whatever else can be stopped for it.
	Machines func(ctx context.Context) ([]Holder, error)
	// Stop ends what an agent does in the machine, with the reason, and stops it.
	// It must not wait for the store.
	Stop   func(ctx context.Context, id string, why error) error
	Logger *slog.Logger
}

// A Holder holds a part of the disk. A [machine.Measured] is one.
type Holder interface {
	ID() string
	Running() bool
	DiskBytes(ctx context.Context) (int64, error)
}

// Half is a limit: half of the whole file system, so that no machine alone can
// use it up.
const Half = -1

// Guard watches one file system. Its methods are safe for concurrent use.
type Guard struct {
	Config
	space   func() (free, total int64, err error) // in bytes; an inode counts as its share of the disk
	floor   int64                                 // free bytes below which the disk is low
	reserve reserve

	mu     sync.Mutex
	uses   map[string]*use // by machine; nil before the first look
	free   int64           // when it was last asked
	gone   int64           // what was taken of the disk, in all, whatever was given back
	looked time.Time       // when the machines were last looked at
	at     int64           // gone, then
	warned bool
}

// use is what is known of a machine's disk.
type use struct {
	bytes int64
	began int64         // what it had before it was started, or less since
	calm  int64         // when the disk was last not low
	at    int64         // Guard.gone when it was measured
	when  time.Time     // of the measurement; zero before the first
	took  time.Duration // the measurement
	older bool          // it was there before the guard, which does not know what it had
	ran   bool          // when it was last looked at
}

// Shares of the file system, and their bounds in bytes.
const (
	floorShare, leastFloor, mostFloor       = 20, 8 << 20, 512 << 20
	reserveShare, leastReserve, mostReserve = 64, 4 << 20, 64 << 20
)

// Times of the watch.
const (
	askEvery     = 250 * time.Millisecond // one statfs
	lookEvery    = 2 * time.Second        // whether there are other machines
	measureEvery = 30 * time.Second       // whatever the file system says: what one takes, another may free
	measureSoon  = 2 * time.Second        // the same where all measurements together take little
	measureShare = 4                      // a measurement is made again after so many times what it took
	measureRest  = 50                     // or so many, where nothing asks for it
)

// New returns a guard that has taken its reserve, where there is room for it.
func New(c Config) (*Guard, error) {
	g := &Guard{Config: c}
	g.space = func() (free, total int64, err error) {
		var fs unix.Statfs_t
		if err := unix.Statfs(c.Dir, &fs); err != nil {
			return 0, 0, fmt.Errorf("ask how full %s is: %w", c.Dir, err)
		}
		free, total = int64(fs.Bavail)*fs.Bsize, int64(fs.Blocks)*fs.Bsize
		if fs.Files > 0 { // the last inodes are as good as the last bytes
			free = min(free, int64(fs.Ffree)*(total/int64(fs.Files)))
		}
		return free, total, nil
	}
	return g, g.begin()
}

func (g *Guard) begin() error {
	free, total, err := g.space()
	if err != nil {
		return err
	}
	g.free = free
	if g.Limit == Half {
		g.Limit = total / 2
	}
	g.floor = min(max(total/floorShare, leastFloor), mostFloor)
	g.reserve = reserve{path: filepath.Join(g.Dir, "reserve"), size: min(max(total/reserveShare, leastReserve), mostReserve)}
	g.takeReserve(free)
	return nil
}

// takeReserve takes the reserve where that does not make the disk low.
func (g *Guard) takeReserve(free int64) {
	if g.reserve.taken() || free < g.floor+g.reserve.size {
		return
	}
	if err := g.reserve.take(); err != nil {
		g.Logger.Warn("no room is kept for the journal on a full disk", "error", err)
	}
}

// Run watches until ctx ends.
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

// Room is a fault where the disk is too full to make a machine on.
func (g *Guard) Room() error {
	free, _, err := g.space()
	if err != nil {
		return nil //nolint:nilerr // who makes the machine will see
	}
	if free >= g.floor {
		return nil
	}
	return fault.Exhausted("cannot create a machine: the disk is nearly full, %d MiB are free", free>>20).Named("disk_full").
		Hint("delete agents, or free space or inodes (df -i) where the server keeps its data, and send a follow-up")
}

// fullPatience bounds what [Guard.Full] takes.
const fullPatience = 10 * time.Second

// Full is for a store that could not write because nothing was left: it stops
// the machine that took it, gives up the reserve, and reports whether there may
// be room now.
func (g *Guard) Full() bool {
	ctx, cancel := context.WithTimeout(context.Background(), fullPatience)
	defer cancel()
	stopped := g.look(ctx, true)
	released := g.reserve.release()
	free, _, err := g.space()
	return stopped || released || err == nil && free > someRoom // made by a look just before
}

// someRoom is what is worth another try, in bytes.
const someRoom = 1 << 20

// look asks the file system, measures where that is due, and reports whether it
// has stopped a machine.
func (g *Guard) look(ctx context.Context, full bool) (stopped bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	free, _, err := g.space()
	if err != nil {
		g.Logger.Error("the disk cannot be watched", "error", err)
		return false
	}
	g.gone += max(0, g.free-free)
	g.free = free
	low := full || free < g.floor
	if !low {
		g.warned = false
		g.takeReserve(free)
		if g.gone == g.at && time.Since(g.looked) < lookEvery {
			return false
		}
	}
	g.looked, g.at = time.Now(), g.gone
	machines, err := g.running(ctx)
	if err != nil {
		g.Logger.Error("cannot list the machines", "error", err)
		return false
	}
	for _, m := range machines {
		if g.measure(ctx, m, low) && g.over(m.ID()) {
			used := g.uses[m.ID()].bytes
			stopped = g.stop(ctx, m, fault.Exhausted("the machine's disk holds %d MiB, and may hold %d", used>>20, g.Limit>>20).Named("disk_limit").
				Hint("send a follow-up that asks to remove what is not needed, or raise machine.disk_bytes")) || stopped
		}
	}
	if low && !stopped {
		stopped = g.stopGreediest(ctx, machines, free, full)
	}
	if low && free < g.floor/4 { // what is written at once before the next look
		g.reserve.release()
	}
	return stopped
}

// Machines returns the machines of a runtime whose disks lie on this host: those
// of agents, and those of builds.
func Machines(ctx context.Context, r machine.Runtime) ([]Holder, error) {
	ids, err := r.List(ctx)
	if err != nil {
		return nil, err
	}
	var all []Holder
	for _, id := range ids {
		m, err := r.Open(ctx, id)
		if err != nil {
			continue // it is being destroyed
		}
		if m, ok := m.(machine.Measured); ok {
			all = append(all, m)
		}
	}
	return all, nil
}

// running returns the machines that run. It forgets those that are gone, and
// notes what those hold that have stopped.
func (g *Guard) running(ctx context.Context) (running []Holder, err error) {
	all, err := g.Machines(ctx)
	if err != nil {
		return nil, err
	}
	known := make(map[string]*use, len(all))
	for _, m := range all {
		u := g.uses[m.ID()]
		if u == nil { // what is new has nothing: it may be quick to take much
			u = &use{older: g.uses == nil}
		}
		known[m.ID()] = u
		if m.Running() {
			running, u.ran = append(running, m), true
		} else if u.ran {
			g.rest(ctx, m, u)
		}
	}
	g.uses = known
	return running, nil
}

// rest notes what a machine holds that has stopped: it begins with that when it is
// started again.
func (g *Guard) rest(ctx context.Context, m Holder, u *use) {
	u.ran = false
	began := time.Now()
	n, err := m.DiskBytes(ctx)
	if err != nil {
		return // it is being destroyed
	}
	u.bytes, u.began, u.calm, u.older = n, n, n, false
	u.at, u.when, u.took = g.gone, began, time.Since(began)
}

// measure measures the machine where that is due, and reports whether it did.
func (g *Guard) measure(ctx context.Context, m Holder, low bool) bool {
	u := g.uses[m.ID()]
	if !u.when.IsZero() {
		since := time.Since(u.when)
		could := g.Limit > 0 && u.bytes+g.gone-u.at > g.allowed(u)
		switch {
		case low && since < u.took:
			return false
		case !low && (since < measureShare*u.took || !could && since < g.patience(u)):
			return false
		}
	}
	began := time.Now()
	n, err := m.DiskBytes(ctx)
	if errors.Is(err, machine.ErrTooManyFiles) {
		// It could hide any amount of the disk in them, and each look takes long.
		g.stop(ctx, m, fault.Exhausted("the machine was stopped: its processes held more files open than the server can count").Named("disk_limit").
			Hint("send a follow-up that asks to keep fewer files open"))
		return false
	}
	if err != nil {
		if ctx.Err() == nil {
			g.Logger.Error("a machine's disk cannot be measured", "machine", m.ID(), "error", err)
		}
		return false
	}
	if u.older {
		u.began, u.calm, u.older = n, n, false
	}
	u.began = min(u.began, n)
	u.bytes, u.at, u.when, u.took = n, g.gone, began, time.Since(began)
	if !low {
		u.calm = n
	}
	return true
}

// patience is how long a machine is not measured where nothing asks for it.
func (g *Guard) patience(u *use) time.Duration {
	all := time.Duration(0)
	for _, other := range g.uses {
		all += other.took
	}
	return min(max(measureEvery, measureRest*u.took), max(measureSoon, measureRest*all))
}

// allowed is what the machine may hold. One that was over its limit when it was
// started may grow a little, or nobody could tidy up in it.
func (g *Guard) allowed(u *use) int64 {
	const slack = 32
	return max(g.Limit, u.began+g.Limit/slack)
}

func (g *Guard) over(id string) bool {
	u := g.uses[id]
	return g.Limit > 0 && u.bytes > g.allowed(u)
}

// stopGreediest stops the machine that has grown most since the disk was not
// low, if it has taken a good part of what was left, or, where nothing is left,
// anything.
func (g *Guard) stopGreediest(ctx context.Context, running []Holder, free int64, full bool) bool {
	least := g.floor / 4
	if full || free < least {
		least = 1
	}
	var greediest Holder
	most := int64(0)
	for _, m := range running {
		if u := g.uses[m.ID()]; u.bytes-u.calm >= max(least, most+1) {
			greediest, most = m, u.bytes-u.calm
		}
	}
	if greediest == nil {
		if !g.warned {
			g.warned = true
			g.Logger.Warn("the disk is nearly full, and no machine has filled it", "dir", g.Dir, "free", free)
		}
		return false
	}
	for _, u := range g.uses { // the others begin anew: a little more of theirs is no guilt
		u.calm = u.bytes
	}
	return g.stop(ctx, greediest, fault.Exhausted("the machine was about to fill the server's disk: it took %d MiB, and %d are left", most>>20, free>>20).Named("disk_limit").
		Hint("send a follow-up that asks to remove what is not needed, or delete the agent; machine.disk_bytes gives each machine a limit"))
}

func (g *Guard) stop(ctx context.Context, m Holder, why error) bool {
	g.Logger.Warn("stopping a machine for its disk", "machine", m.ID(), "reason", why)
	if err := g.Stop(ctx, m.ID(), why); err != nil {
		g.Logger.Error("machine cannot be stopped", "machine", m.ID(), "error", err)
		return false
	}
	g.rest(ctx, m, g.uses[m.ID()])
	return true
}
