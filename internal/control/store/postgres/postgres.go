// Package postgres implements the store in a PostgreSQL database, version 13 or
// later, which any number of servers can share.
//
// Each change is a transaction that holds an advisory lock, which excludes
// concurrent changes of the same object by any server. If the connection is
// lost during a commit, the outcome is looked up by the transaction's number;
// only if that fails too does the caller get [store.ErrUnknown]. Servers notify
// each other with NOTIFY of the ids of agents whose journals have grown, and
// read the events themselves.
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

// conns is the maximum number of connections per server, besides the one for
// LISTEN.
const conns = 16

// Timeouts of the database. They are shorter than those of the connection, so
// that the error tells the cause.
const (
	connectTimeout     = 5 * time.Second
	statementTimeout   = 30 * time.Second // timeout of one statement
	lockTimeout        = 10 * time.Second // timeout of waiting for another transaction's lock
	transactionTimeout = 60 * time.Second // timeout of a whole transaction
)

// oldest is the first version that supports looking up a transaction's outcome.
const oldest = 130000

// Store is an open database. It embeds a [table.Store]. Its methods are safe
// for concurrent use.
type Store struct {
	*table.Store
	config   *pgx.ConnConfig
	db       *sql.DB
	watch    table.Watch
	serverID string
	logger   *slog.Logger

	settleWithin time.Duration // the constant settleWithin, except in tests
	notices      chan string   // ids of agents whose journals have changed
	background   context.Context
	stop         context.CancelFunc
	running      sync.WaitGroup
	close        func() error
}

// Open connects to the database at url, a postgres:// URL or a string of
// keywords and values, and migrates its schema. If two servers do this at once,
// one waits. serverID is the name under which this server takes leases. It must
// be unique, and should stay the same across restarts. Errors that users can
// fix are faults with a hint.
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
	if err != nil || strings.Contains(config.Host+config.Database, "@") { // an @ is probably part of a password that was not escaped
		// The driver's message may contain part of the password.
		return nil, fault.Invalid("the store's address is not a valid PostgreSQL address, or names a file that cannot be read").
			Named("store_address").Hint("use postgres://user@host:5432/aloft, with the password in PGPASSWORD or ~/.pgpass; in the address write %%2F for /, %%40 for @ and %%3A for :")
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	return config, nil
}

func open(ctx context.Context, config *pgx.ConnConfig, serverID string, logger *slog.Logger) (_ *Store, err error) {
	setDefault(config, "application_name", "aloft")
	setDefault(config, "tcp_keepalives_idle", "20") // seconds: a dead host must not hold its name for hours
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

// ServerID returns the name under which this server takes leases.
func (s *Store) ServerID() string { return s.serverID }

// Close closes the store. Changes in progress complete; waiting callers get an
// error. It is safe to call Close twice.
func (s *Store) Close() error { return s.close() }

func (s *Store) shut() error {
	s.stop()
	s.running.Wait()
	s.watch.Close()
	return s.db.Close()
}
