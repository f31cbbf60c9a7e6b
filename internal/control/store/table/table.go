// Package table keeps what the server remembers in the tables of an SQL
// database: what every such store does alike. The databases are its neighbours;
// each brings a connection, a way to write, and the schema. The queries are one
// text for all of them: SQLite's numbered parameters, upserts by ON CONFLICT,
// and sums of what only one knows left to Go.
//
// It is more than 2,000 lines with what sqlc has generated, and a file for each
// noun without.
package table

import (
	"context"
	"time"

	"aloft/internal/control/store"
	"aloft/internal/control/store/table/query"
)

//go:generate go run github.com/sqlc-dev/sqlc/cmd/sqlc@v1.31.1 generate

// Database is where the tables are. Its methods are safe for concurrent use.
type Database interface {
	// Write has do make a change in one transaction, which no other of that key
	// runs beside, and returns when it is on disk, or surely is not; it is also not
	// where the error wraps [store.ErrUnknown]. do may be called again after a
	// rollback. What it returns before it has written is returned, and undoes
	// nothing of others. The key "" is of changes that may run beside any.
	Write(ctx context.Context, key string, do func(*Tx) error) error
}

// What changes beside nothing else of its kind. An agent and its lease have the
// lease's name for a key.
const (
	accounts     = "accounts"
	builds       = "builds"
	deliveries   = "deliveries"
	environments = "environments"
	secrets      = "secrets"
	snapshots    = "snapshots"
	alone        = "" // one statement, which is whole by itself
)

// Store is the tables of a database. It implements all that package store
// speaks of; its methods are safe for concurrent use.
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
)

// New returns the tables of a database, which are read through read. The
// database tells w what was written.
func New(db Database, read *query.Queries, w *Watch) *Store {
	return &Store{db: db, read: read, watch: w}
}

// Tx is what a change is written through.
type Tx struct {
	Ctx   context.Context // of the statements
	Q     *query.Queries
	Known *Known
	Wrote bool  // something, so that a failure needs a rollback
	News  *News // to be told once it is on disk; may be nil
	// Refused turns the database's words for what it refuses into the store's:
	// [store.ErrExists], and [store.ErrNotFound] for what a row refers to. Such a
	// statement has written nothing.
	Refused func(error) error
	// AddEvents writes rows of the journal at once; nil is one after the other.
	AddEvents func([]query.AddEventParams) error
	// Now is the clock that leases go by; nil is this host's.
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
