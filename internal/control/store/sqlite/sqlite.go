// Package sqlite is the store in one file on the server's own disk. It is the
// default, and it needs nothing.
//
// One goroutine writes. While a transaction commits, the requests that arrive
// are collected, and they become the next one: so a hundred agents share an
// fsync. Reading goes over a pool of connections and waits for nobody.
//
// One server at a time may have the file open; a second gets a clear error.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	_ "modernc.org/sqlite" // the driver

	"aloft/internal/account"
	"aloft/internal/control/store/table"
	"aloft/internal/control/store/table/query"
)

// readers is how many connections read at once. Reads are short, and more of
// them than this would only take turns on the processors.
const readers = 8

// Store is an open database. It is what a [table.Store] is; its methods are safe
// for concurrent use.
type Store struct {
	*table.Store

	lock     *os.File
	db       *sql.DB // reads
	read     *query.Queries
	writer   *writer
	watch    table.Watch
	serverID string
	close    func() error
	rules    cache[ruleKey, string]
	users    cache[int64, account.User]
}

// Open opens the database file, which it makes if it is not there, and brings
// its schema up to date. The error is a fault with advice where another server
// has the file open, or where a newer version of Aloft has written it.
func Open(ctx context.Context, path string, logger *slog.Logger) (*Store, error) {
	s, err := open(ctx, path, logger)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	return s, nil
}

func open(ctx context.Context, path string, logger *slog.Logger) (_ *Store, err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	s := &Store{}
	s.close = sync.OnceValue(s.shut)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.lock, err = Lock(path + ".lock"); err != nil {
		return nil, err
	}
	if err := makePrivate(path); err != nil {
		return nil, err
	}
	if err := migrate(ctx, path, logger); err != nil {
		return nil, err
	}
	if s.writer, err = newWriter(ctx, path, &s.watch); err != nil {
		return nil, err
	}
	if s.db, err = sql.Open("sqlite", dsn(path, "query_only(1)")); err != nil {
		return nil, err
	}
	s.db.SetMaxOpenConns(readers)
	s.db.SetMaxIdleConns(readers)
	if s.read, err = query.Prepare(ctx, s.db); err != nil {
		return nil, err
	}
	s.Store = table.New(s, s.read, &s.watch)
	s.serverID, err = s.findServerID(ctx)
	return s, err
}

// Close ends the store: what was asked for before is still written, and whoever
// waits gets an error. Closing twice is fine.
func (s *Store) Close() error { return s.close() }

func (s *Store) shut() error {
	var errs []error
	if s.writer != nil {
		errs = append(errs, s.writer.stop())
	}
	s.watch.Close()
	if s.read != nil {
		errs = append(errs, s.read.Close())
	}
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(errs...)
}

// dsn names the file to the driver, with the settings of every connection.
func dsn(path string, pragmas ...string) string {
	all := append([]string{
		"busy_timeout(5000)", // a reader may find the file busy for the moment in which the last one closes it
		"journal_mode(WAL)",
		"synchronous(FULL)", // a commit is an fsync: what was acknowledged survives the power
		"foreign_keys(1)",
		"temp_store(memory)",
		"journal_size_limit(67108864)", // a log that grew is cut back
	}, pragmas...)
	u := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: url.Values{"_pragma": all}.Encode()}
	return u.String()
}

// makePrivate makes the file, or takes it away from others. SQLite gives the
// files beside it the same permissions.
func makePrivate(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(0o600), f.Close())
}
