// Package sqlite implements the store in one file on the server's disk. It is
// the default and needs no configuration.
//
// One goroutine writes. Requests that arrive while a transaction commits are
// collected into the next one, so a hundred agents share an fsync. Reads use a
// pool of connections and never wait for the writer.
//
// Only one server at a time can have the file open; a second server gets an
// error that says so.
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

	_ "modernc.org/sqlite" // registers the driver

	"aloft/internal/account"
	"aloft/internal/control/store/table"
	"aloft/internal/control/store/table/query"
)

// readers is the number of concurrent read connections. Reads are short, so
// more connections would only compete for the processors.
const readers = 8

// Store is an open database. It embeds a [table.Store]. Its methods are safe
// for concurrent use.
type Store struct {
	*table.Store

	lock     *os.File
	db       *sql.DB // pool of connections for reading
	read     *query.Queries
	writer   *writer
	watch    table.Watch
	serverID string
	close    func() error
	rules    cache[ruleKey, string]
	users    cache[int64, account.User]
}

// Open opens the database file, creating it if necessary, and migrates its
// schema. The error is a fault with a hint if another server has the file open,
// or if a newer version of Aloft has written it.
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

// Close closes the store. Queued writes complete; waiting callers get an error.
// It is safe to call Close twice.
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

// dsn returns the driver's name for the file, with the settings of every
// connection.
func dsn(path string, pragmas ...string) string {
	all := append([]string{
		"busy_timeout(5000)", // the file may be briefly locked while its last connection closes
		"journal_mode(WAL)",
		"synchronous(FULL)", // fsync on commit: acknowledged writes survive a power failure
		"foreign_keys(1)",
		"temp_store(memory)",
		"journal_size_limit(67108864)", // truncate a WAL that has grown
	}, pragmas...)
	u := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: url.Values{"_pragma": all}.Encode()}
	return u.String()
}

// makePrivate creates the file, or restricts its permissions to the owner.
// SQLite gives its other files the same permissions.
func makePrivate(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(0o600), f.Close())
}
