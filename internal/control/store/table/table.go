// Package table implements the part of the store that all SQL databases have in
// common. Each database package provides a connection, a way to write, and the
// schema. All of them share the same queries, which use SQLite's numbered
// parameters and ON CONFLICT.
//
// With the code that sqlc generates, the package has more than 2,000 lines. Its
// own code has one file per noun.
package table

import (
	"context"
	"fmt"
	"time"

	"aloft/internal/control/store"
	"aloft/internal/control/store/table/query"
)

//go:generate go run github.com/sqlc-dev/sqlc/cmd/sqlc@v1.31.1 generate

// Database is the database that contains the tables. Its methods are safe for
// concurrent use.
type Database interface {
	// Write runs do in a transaction. Transactions with the same key do not run
	// concurrently; transactions with the key "" may always run concurrently.
	// When Write returns nil, the change is on disk; otherwise it was not
	// written, unless the error wraps [store.ErrUnknown]. do may be called
	// again after a rollback. If do returns an error before it has written
	// anything, other changes are not affected.
	Write(ctx context.Context, key string, do func(*Tx) error) error
}

// Keys of [Database.Write]. Changes with the same key do not run concurrently.
// For an agent and its lease, the key is the name of the lease.
const (
	accounts     = "accounts"
	builds       = "builds"
	deliveries   = "deliveries"
	environments = "environments"
	inbound      = "inbound"
	memories     = "memories"
	pulls        = "pulls"
	topics       = "topics"
	automations  = "automations"
	secrets      = "secrets"
	snapshots    = "snapshots"
	alone        = "" // for a single statement, which is atomic anyway
)

// Store implements the interfaces of package store with the tables of a
// database. Its methods are safe for concurrent use.
type Store struct {
	db    Database
	read  *query.Queries
	watch *Watch
}

var (
	_ store.Journal      = (*Store)(nil)
	_ store.Agents       = (*Store)(nil)
	_ store.Leases       = (*Store)(nil)
	_ store.Accounts     = (*Store)(nil)
	_ store.Members      = (*Store)(nil)
	_ store.SignIns      = (*Store)(nil)
	_ store.AuditLog     = (*Store)(nil)
	_ store.Usage        = (*Store)(nil)
	_ store.Builds       = (*Store)(nil)
	_ store.Environments = (*Store)(nil)
	_ store.Snapshots    = (*Store)(nil)
	_ store.Rules        = (*Store)(nil)
	_ store.Secrets      = (*Store)(nil)
	_ store.Deliveries   = (*Store)(nil)
	_ store.Replies      = (*Store)(nil)
	_ store.Inbox        = (*Store)(nil)
	_ store.PullWatches  = (*Store)(nil)
	_ store.Topics       = (*Store)(nil)
	_ store.Memories     = (*Store)(nil)
	_ store.Automations  = (*Store)(nil)
)

// New returns the tables of a database. Reads use read. The database must
// notify w of every write.
func New(db Database, read *query.Queries, w *Watch) *Store {
	return &Store{db: db, read: read, watch: w}
}

// Tx is a transaction that writes.
type Tx struct {
	Ctx   context.Context // context of the statements
	Q     *query.Queries
	Known *Known
	Wrote bool  // whether something was written, so that a failure requires a rollback
	News  *News // sent to waiters once the change is on disk; may be nil
	// Refused converts a constraint error of the database to [store.ErrExists],
	// or to [store.ErrNotFound] if a row that it refers to is missing. The
	// failed statement has written nothing.
	Refused func(error) error
	// AddEvents writes several journal rows at once; if nil, they are written
	// one after another.
	AddEvents func([]query.AddEventParams) error
	// Now is the clock for leases; nil means this host's clock.
	Now func() (time.Time, error)
}

func (tx *Tx) addEvents(rows []query.AddEventParams) error {
	if tx.AddEvents != nil {
		return tx.AddEvents(rows)
	}
	for _, row := range rows {
		if err := tx.Q.AddEvent(tx.Ctx, row); err != nil {
			return err
		}
	}
	return nil
}

func (tx *Tx) now() (time.Time, error) {
	if tx.Now != nil {
		return tx.Now()
	}
	return time.Now(), nil
}

// claimDue returns the rows that are due, and claims each in the same transaction. Writes
// with the same key do not run concurrently.
func claimDue[Row, Due any](ctx context.Context, s *Store, key string, due Due,
	list func(*query.Queries, context.Context, Due) ([]Row, error), claim func(*Tx, Row) error,
) ([]Row, error) {
	rows, err := list(s.read, ctx, due)
	if err != nil || len(rows) == 0 { // there is nothing to write
		return nil, err
	}
	err = s.db.Write(ctx, key, func(tx *Tx) (err error) {
		if rows, err = list(tx.Q, tx.Ctx, due); err != nil {
			return err
		}
		for _, row := range rows {
			tx.Wrote = true
			if err := claim(tx, row); err != nil {
				return err
			}
		}
		return nil
	})
	return rows, err
}

// writeOne executes a statement that may change many rows. The argument what
// describes the statement in the error.
func writeOne[Args any](ctx context.Context, s *Store, key, what string, args Args, statement func(*query.Queries, context.Context, Args) error) error {
	err := s.db.Write(ctx, key, func(tx *Tx) error {
		tx.Wrote = true
		return statement(tx.Q, tx.Ctx, args)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
