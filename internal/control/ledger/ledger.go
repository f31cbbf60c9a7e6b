// Package ledger adds up what each agent, each person and the server itself use
// on the host, in bytes and inodes. Quotas, error messages and the choice of the
// machine that a full disk stops are based on these numbers. It also counts what they
// have open at the server: streams, large requests, pushes and events.
//
// A [Ledger] stores nothing on disk: it asks each [Source] for its items, which
// is cheap, and measures only items that are new, have changed, or were
// measured too long ago. It drops items that their source no longer lists, so
// deleting an item takes effect at once.
package ledger

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// A Kind is the kind of thing that a row of the ledger measures.
type Kind string

// Kinds of rows. Rows of the last three are always the server's.
const (
	Machine   Kind = "machine"   // the disk of an agent's machine or of a build
	Layer     Kind = "layer"     // a snapshot, a build, or a disk shared by forks
	Journal   Kind = "journal"   // the events of an agent, in the database
	Artifacts Kind = "artifacts" // the files that an agent has put into its artifacts folder
	Log       Kind = "log"       // the connection log of an agent
	Mirror    Kind = "mirror"    // the mirrors of repositories
	Image     Kind = "image"     // images of machines
	Cache     Kind = "cache"     // the cache of Dockerfile builds
)

// Size is a disk usage. Bytes and inodes of several sizes can be added.
type Size struct {
	Bytes  int64 // allocated bytes, as du counts them
	Inodes int64
}

// Plus returns the sum of two sizes.
func (s Size) Plus(o Size) Size { return Size{s.Bytes + o.Bytes, s.Inodes + o.Inodes} }

// An Item is something that uses disk space, as its [Source] lists it.
type Item struct {
	ID      string // unique within the source
	AgentID string // "" if the item belongs to no agent
	UserID  int64  // 0 if the item belongs to the server
	// Version changes when the item changes. An item is not measured again
	// while its version is the same. If Version is "", measurements expire by
	// age alone.
	Version string
	// Measure measures the item. last is the previous measurement, or zero. The
	// result contains the version that was measured, which may be newer than
	// Version.
	Measure func(ctx context.Context, last Measured) (Measured, error)
}

// Measured is the size of an item at a version.
type Measured struct {
	Size
	Version string
}

// A Source lists the items of one kind. Its methods are safe for concurrent use.
type Source interface {
	Kind() Kind
	// Items returns the current items. It must be quick, so it takes no
	// measurements.
	Items(ctx context.Context) ([]Item, error)
}

// A Row is one measured item.
type Row struct {
	Kind    Kind
	ID      string
	AgentID string
	UserID  int64
	Size
	Measured time.Time // zero if the item could not be measured yet
}

// When usage is measured again.
const (
	// maxAge is the age at which an item without a version is measured again.
	maxAge = 2 * time.Minute
	// restShare is the pause after a refresh in the background, as a multiple
	// of the refresh's duration, so that measuring takes at most a twentieth of
	// one processor.
	restShare = 20
)

// A Ledger adds up the items of its sources. Its methods are safe for concurrent
// use.
type Ledger struct {
	Tally   Tally // what agents and people have open at the server
	sources []Source
	logger  *slog.Logger
	now     func() time.Time

	mu       sync.Mutex
	measured map[key]measurement
}

type key struct {
	kind Kind
	id   string
}

type measurement struct {
	Measured
	measuredAt time.Time
	userID     int64
}

// New returns a ledger of the sources.
func New(logger *slog.Logger, sources ...Source) *Ledger {
	return &Ledger{sources: sources, logger: logger, now: time.Now, measured: map[key]measurement{}}
}

// Run measures in the background until ctx ends.
func (l *Ledger) Run(ctx context.Context) error {
	for {
		began := time.Now()
		if err := l.refresh(ctx); err != nil && ctx.Err() == nil {
			l.logger.Warn("cannot measure everything that uses the disk", "error", err)
		}
		rest := time.NewTimer(max(maxAge, restShare*time.Since(began)))
		select {
		case <-ctx.Done():
			rest.Stop()
			return nil
		case <-rest.C:
		}
	}
}

// Rows returns the rows of a user, or of everybody if userID is 0, the largest
// first. It measures only items that were never measured. If a source fails,
// Rows returns the error and the rows of the other sources.
func (l *Ledger) Rows(ctx context.Context, userID int64) ([]Row, error) {
	return l.rows(ctx, userID, never)
}

// never is the age limit with which no measurement expires.
const never = time.Duration(1<<63 - 1)

// RowsNow is like [Ledger.Rows], but first measures all items again that may
// have changed.
func (l *Ledger) RowsNow(ctx context.Context, userID int64) ([]Row, error) {
	return l.rows(ctx, userID, 0)
}

func (l *Ledger) rows(ctx context.Context, userID int64, age time.Duration) ([]Row, error) {
	var rows []Row
	err := l.each(ctx, age, func(i Item) bool { return userID == 0 || i.UserID == userID }, func(kind Kind, i Item, m measurement) {
		rows = append(rows, Row{Kind: kind, ID: i.ID, AgentID: i.AgentID, UserID: i.UserID, Size: m.Size, Measured: m.measuredAt})
	})
	slices.SortFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID))
	})
	return rows, err
}

// refresh measures items whose measurement is older than maxAge, and forgets
// the measurements of items that are gone.
func (l *Ledger) refresh(ctx context.Context) error {
	known := map[key]bool{}
	err := l.each(ctx, maxAge, func(Item) bool { return true }, func(kind Kind, i Item, _ measurement) { known[key{kind, i.ID}] = true })
	if err != nil { // known may be incomplete
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for k := range l.measured {
		if !known[k] {
			delete(l.measured, k)
		}
	}
	return nil
}

// each calls do for every included item, with a measurement that is at most age
// old.
func (l *Ledger) each(ctx context.Context, age time.Duration, include func(Item) bool, do func(Kind, Item, measurement)) error {
	var errs []error
	for _, s := range l.sources {
		items, err := s.Items(ctx)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, i := range items {
			if !include(i) {
				continue
			}
			m, err := l.measure(ctx, s.Kind(), i, age)
			if err != nil {
				errs = append(errs, err)
			}
			do(s.Kind(), i, m)
		}
	}
	return errors.Join(errs...)
}

// measure returns the last measurement of an item, or a new one if that has
// expired. If measuring fails, it returns the last measurement and the error.
func (l *Ledger) measure(ctx context.Context, kind Kind, i Item, age time.Duration) (measurement, error) {
	k := key{kind, i.ID}
	l.mu.Lock()
	m := l.measured[k]
	l.mu.Unlock()
	switch {
	case m.measuredAt.IsZero():
	case i.Version != "" && i.Version == m.Version:
		return m, nil
	case l.now().Sub(m.measuredAt) < age:
		return m, nil
	}
	at := l.now()
	got, err := i.Measure(ctx, m.Measured)
	if err != nil {
		return m, err
	}
	m = measurement{Measured: got, measuredAt: at, userID: i.UserID}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.measured[k] = m
	return m, nil
}

// LastTotal returns the total usage of an agent's owner according to the last
// measurements. It asks no source and measures nothing, so it works while the
// disk is full. ok is false if no item of the agent was measured yet.
func (l *Ledger) LastTotal(agentID string) (total Size, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	userID := l.measured[key{Journal, agentID}].userID
	if userID == 0 {
		return Size{}, false
	}
	for _, m := range l.measured {
		if m.userID == userID {
			total = total.Plus(m.Size)
		}
	}
	return total, true
}

// Outside returns how many bytes of an agent's files are in folders outside of its
// machine: its artifacts and its connection log. If fresh is true, it measures them;
// otherwise it adds up the last measurements. It does not use the store, so it works
// while the disk is full. What cannot be measured counts as before.
func (l *Ledger) Outside(ctx context.Context, agentID string, fresh bool) (total int64) {
	for _, s := range l.sources {
		f, ok := s.(Folders)
		if !ok || f.Store == nil {
			continue
		}
		k := key{f.Of, agentID}
		if fresh {
			at := l.now()
			if bytes, inodes, err := f.In.Usage(ctx, agentID); err == nil {
				l.mu.Lock()
				l.measured[k] = measurement{Measured: Measured{Size: Size{bytes, inodes}}, measuredAt: at, userID: l.measured[key{Journal, agentID}].userID}
				l.mu.Unlock()
			}
		}
		l.mu.Lock()
		total += l.measured[k].Bytes
		l.mu.Unlock()
	}
	return total
}

// Sum adds up rows.
func Sum(rows []Row) (total Size) {
	for _, r := range rows {
		total = total.Plus(r.Size)
	}
	return total
}
