// Package postgres is the store in a PostgreSQL database, version 13 or later,
// which any number of servers may share.
//
// A change is a transaction of its own, behind a lock on the name of what it
// changes, which servers share too. One that was cut off while it was
// acknowledged is looked up by its number; only where that fails does the caller
// learn that nobody knows ([store.ErrUnknown]). Servers tell each other which
// journals have grown by NOTIFY, ids alone, and read the rest.
package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"aloft/internal/control/store/table"
	"aloft/internal/control/store/table/query"
	"aloft/internal/fault"
)

// conns is how many connections a server has at most, besides the one that
// listens.
const conns = 16

// How long the database may take. It gives up by itself before the connection
// does, and says why.
const (
	connectTimeout     = 5 * time.Second
	statementTimeout   = 30 * time.Second // of one statement
	lockTimeout        = 10 * time.Second // of waiting for another's change
	transactionTimeout = 60 * time.Second // of a change, in all
)

// oldest is the first version that can be asked what became of a transaction.
const oldest = 130000

// Store is an open database. It is what a [table.Store] is; its methods are safe
// for concurrent use.
type Store struct {
	*table.Store
	config   *pgx.ConnConfig
	db       *sql.DB
	watch    table.Watch
	serverID string
	logger   *slog.Logger

	settleWithin time.Duration // see the constant
	notices      chan string   // ids of agents whose journals have changed
	background   context.Context
	stop         context.CancelFunc
	running      sync.WaitGroup
	close        func() error
}

// Open connects to the database that url names, a postgres:// address or a
// string of keywords and values, and brings its schema up to date; of two
// servers that do so at once one waits. serverID is the name under which this
// server takes leases, which no other may have; it should stay the same when the
// server comes back. The error is a fault with advice where it is plain what to do.
func Open(ctx context.Context, url, serverID string, logger *slog.Logger) (*Store, error) {
	config, err := parse(url)
	if err != nil {
		return nil, err
	}
	s, err := open(ctx, config, serverID, logger)
	if err != nil {
		return nil, fmt.Errorf("open store %s at %s:%d: %w", config.Database, config.Host, config.Port, err)
	}
	return s, nil
}

func parse(url string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil || strings.Contains(config.Host+config.Database, "@") { // an address that is cut in the wrong place
		// What the driver says of it may have a part of the password in it.
		return nil, fault.Invalid("the address of the store is not one of PostgreSQL, or names a file that cannot be read").
			Named("store_address").Hint("write it as postgres://user@host:5432/aloft, and the password into PGPASSWORD or ~/.pgpass; within an address %%2F stands for /, %%40 for @, %%3A for :")
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	return config, nil
}

func open(ctx context.Context, config *pgx.ConnConfig, serverID string, logger *slog.Logger) (_ *Store, err error) {
	setDefault(config, "application_name", "aloft")
	setDefault(config, "tcp_keepalives_idle", "20") // in seconds: a host that is gone does not keep its name for hours
	setDefault(config, "tcp_keepalives_interval", "5")
	setDefault(config, "tcp_keepalives_count", "4")
	if err := migrate(ctx, config.Copy(), logger); err != nil {
		return nil, err
	}
	for name, d := range map[string]time.Duration{
		"statement_timeout": statementTimeout, "lock_timeout": lockTimeout, "idle_in_transaction_session_timeout": transactionTimeout,
	} {
		setDefault(config, name, fmt.Sprint(d.Milliseconds()))
	}
	s := &Store{config: config, db: openDB(config), serverID: serverID, logger: logger, settleWithin: settleWithin, notices: make(chan string, 1024)}
	s.close = sync.OnceValue(s.shut)
	s.background, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	s.Store = table.New(s, query.New(s.db), &s.watch)
	listener, err := s.listen(ctx)
	if err != nil {
		return nil, errors.Join(err, s.db.Close())
	}
	s.running.Go(func() { s.hear(s.background, listener) })
	s.running.Go(func() { s.tell(s.background) })
	return s, nil
}

func setDefault(config *pgx.ConnConfig, name, value string) {
	if _, ok := config.RuntimeParams[name]; !ok {
		config.RuntimeParams[name] = value
	}
}

func openDB(config *pgx.ConnConfig) *sql.DB {
	db := sql.OpenDB(connector{stdlib.GetConnector(*config)})
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db
}

// ServerID is the name under which this server takes leases.
func (s *Store) ServerID() string { return s.serverID }

// Close ends the store: changes under way are finished, and whoever waits gets
// an error. Closing twice is fine.
func (s *Store) Close() error { return s.close() }

func (s *Store) shut() error {
	s.stop()
	s.running.Wait()
	s.watch.Close()
	return s.db.Close()
}
