package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	driver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"aloft/internal/control/store"
	"aloft/internal/control/store/table"
	"aloft/internal/control/store/table/query"
)

// maxBatch is how many requests may share a transaction. It limits how long the
// first request waits for the last.
const maxBatch = 256

// writer is the only connection that writes, and the goroutine that uses it.
type writer struct {
	db    *sql.DB
	conn  *sql.Conn
	q     *query.Queries
	known *table.Known
	watch *table.Watch

	mu       sync.Mutex
	makeRoom func() bool // see [Store.OnFull]; may be nil
	queue    []*request
	closed   bool
	wake     chan struct{} // holds a token when the queue is not empty or was closed
	done     chan struct{} // closed when the goroutine has ended
}

// request is one atomic write.
type request struct {
	do    func(*table.Tx) error // may be called again after a rollback
	taken atomic.Bool           // set by the writer, or by a caller who gave up
	err   chan error            // has a buffer of one
}

func newWriter(ctx context.Context, path string, w *table.Watch) (*writer, error) {
	db, err := sql.Open("sqlite", dsn(path, "cache_size(-32768)"))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	q, err := query.Prepare(ctx, conn)
	if err != nil {
		return nil, errors.Join(err, conn.Close(), db.Close())
	}
	wr := &writer{
		db: db, conn: conn, q: q, watch: w, known: table.NewKnown(),
		wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	go wr.run()
	return wr, nil
}

// stop ends the writer after the queued requests.
func (w *writer) stop() error {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.nudge()
	<-w.done
	return errors.Join(w.q.Close(), w.conn.Close(), w.db.Close())
}

// Write implements [table.Database]. There is only one writer, so the keys are
// not needed.
func (s *Store) Write(ctx context.Context, _ string, do func(*table.Tx) error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	r := &request{do: do, err: make(chan error, 1)}
	if !s.writer.enqueue(r) {
		return store.ErrClosed
	}
	select {
	case err := <-r.err:
		return err
	case <-ctx.Done():
		if r.taken.CompareAndSwap(false, true) {
			return context.Cause(ctx)
		}
		return <-r.err // the write has begun, so wait for the result
	}
}

func (w *writer) enqueue(r *request) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.queue = append(w.queue, r)
	w.nudge()
	return true
}

func (w *writer) nudge() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *writer) run() {
	defer close(w.done)
	for {
		batch, closed := w.take()
		switch {
		case len(batch) > 0:
			w.commit(batch)
		case closed:
			return
		default:
			<-w.wake
		}
	}
}

// take returns the queued requests, except those whose callers have given up.
func (w *writer) take() (batch []*request, closed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(w.queue), maxBatch)
	for _, r := range w.queue[:n] {
		if r.taken.CompareAndSwap(false, true) {
			batch = append(batch, r)
		}
	}
	w.queue = append([]*request(nil), w.queue[n:]...)
	return batch, w.closed && len(w.queue) == 0
}

// OnFull sets the function that is called to free space when the disk is full.
// It reports whether a write should be retried. It must not use the store,
// because the writer waits for it.
func (s *Store) OnFull(makeRoom func() bool) {
	s.writer.mu.Lock()
	defer s.writer.mu.Unlock()
	s.writer.makeRoom = makeRoom
}

// roomAgain reports whether a full disk may have space now.
func (w *writer) roomAgain() bool {
	w.mu.Lock()
	makeRoom := w.makeRoom
	w.mu.Unlock()
	return makeRoom != nil && makeRoom()
}

// commit writes the batch in one transaction and answers all its requests. A
// request that is rejected before it has written anything does not affect the
// others. If a request fails after writing, commit rolls back the transaction
// and tries each request alone, so that only the faulty request fails.
func (w *writer) commit(batch []*request) {
	errs, news, err := w.transact(batch)
	if errors.Is(err, store.ErrFull) && w.roomAgain() {
		errs, news, err = w.transact(batch)
	}
	switch {
	case err == nil:
		for _, n := range news {
			w.watch.Tell(n)
		}
	case len(batch) > 1 && !errors.Is(err, store.ErrFull):
		for _, r := range batch {
			w.commit([]*request{r})
		}
		return
	default:
		for i := range errs {
			errs[i] = err
		}
	}
	for i, r := range batch {
		r.err <- errs[i]
	}
}

// transact returns the rejections by request, and the notifications for the
// changes that are now on disk. If it returns an error, nothing of the batch
// was written.
func (w *writer) transact(batch []*request) (errs []error, news []table.News, err error) {
	ctx := context.Background() // not the caller's context, so that no transaction is aborted midway
	errs = make([]error, len(batch))
	if _, err := w.conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return errs, nil, fmt.Errorf("begin: %w", writeError(err))
	}
	for i, r := range batch {
		tx := &table.Tx{Ctx: ctx, Q: w.q, Known: w.known, Refused: refused}
		errs[i] = r.do(tx)
		if errs[i] != nil && tx.Wrote || isDriver(errs[i]) {
			return errs, nil, w.rollback(errs[i])
		}
		if errs[i] == nil && tx.News != nil {
			news = append(news, *tx.News)
		}
	}
	if _, err := w.conn.ExecContext(ctx, "COMMIT"); err != nil {
		return errs, nil, w.rollback(fmt.Errorf("commit: %w", err))
	}
	return errs, news, nil
}

// rollback undoes the transaction. It ignores errors, since SQLite has already
// rolled back if the disk is full.
func (w *writer) rollback(why error) error {
	w.known.ForgetAll()
	_, _ = w.conn.ExecContext(context.Background(), "ROLLBACK")
	return writeError(why)
}

// refused converts SQLite's constraint errors to the store's errors.
func refused(err error) error {
	if e, ok := errors.AsType[*driver.Error](err); ok {
		switch e.Code() {
		case sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY:
			return store.ErrExists
		case sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
			return fmt.Errorf("a row that it refers to: %w", store.ErrNotFound)
		}
	}
	return err
}

func isDriver(err error) bool {
	_, ok := errors.AsType[*driver.Error](err)
	return ok
}

// writeError converts disk errors to [store.ErrFull].
func writeError(err error) error {
	e, ok := errors.AsType[*driver.Error](err)
	if !ok {
		return err
	}
	const primary = 0xff // the higher bits are details
	switch e.Code() & primary {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN:
		return fmt.Errorf("%w: %w", store.ErrFull, err)
	}
	return err
}
