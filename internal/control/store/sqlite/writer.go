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

// maxBatch bounds how many requests share a transaction, and so how long the
// first of them waits for the last.
const maxBatch = 256

// writer is the one connection that writes, and the goroutine that has it.
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
	wake     chan struct{} // holds one: the queue is not empty, or closed
	done     chan struct{} // closed when the goroutine has ended
}

// request is one thing to write, whole or not at all.
type request struct {
	do    func(*table.Tx) error // may be called again after a rollback
	taken atomic.Bool           // by the writer, or by a caller who gave up
	err   chan error            // holds one
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

// stop ends the writer after what is in its queue.
func (w *writer) stop() error {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.nudge()
	<-w.done
	return errors.Join(w.q.Close(), w.conn.Close(), w.db.Close())
}

// Write implements [table.Database]. There is one writer, so that no two run
// beside each other, whatever their keys.
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
		return <-r.err // it is being written: the answer is near
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

// take returns the requests that wait, less those whose callers gave up.
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

// OnFull sets what is asked to make room when the disk is full: it reports
// whether a write is worth another try. It must not use the store, whose one
// writer waits for it.
func (s *Store) OnFull(makeRoom func() bool) {
	s.writer.mu.Lock()
	defer s.writer.mu.Unlock()
	s.writer.makeRoom = makeRoom
}

// roomAgain reports whether there may be room now on a disk that was full.
func (w *writer) roomAgain() bool {
	w.mu.Lock()
	makeRoom := w.makeRoom
	w.mu.Unlock()
	return makeRoom != nil && makeRoom()
}

// commit writes the batch in one transaction and answers every request of it.
// A request that is refused before it has written anything costs the others
// nothing. If one fails halfway all is rolled back, and each is tried alone, so
// that the fault stays with whose it is.
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

// transact returns the refusals by request, and what is to be told now that the
// rest is on disk; or an error, and then nothing of the batch is.
func (w *writer) transact(batch []*request) (errs []error, news []table.News, err error) {
	ctx := context.Background() // never done: a transaction is not to be cut in two
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

// rollback undoes the transaction. SQLite may have done so already, when the
// disk is full: then there is none, and the error of the rollback says so.
func (w *writer) rollback(why error) error {
	w.known.ForgetAll()
	_, _ = w.conn.ExecContext(context.Background(), "ROLLBACK")
	return writeError(why)
}

// refused turns SQLite's words for what it refuses into the store's.
func refused(err error) error {
	if e, ok := errors.AsType[*driver.Error](err); ok {
		switch e.Code() {
		case sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY:
			return store.ErrExists
		case sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
			return fmt.Errorf("what it belongs to: %w", store.ErrNotFound)
		}
	}
	return err
}

func isDriver(err error) bool {
	_, ok := errors.AsType[*driver.Error](err)
	return ok
}

// writeError makes the failures of a disk into [store.ErrFull].
func writeError(err error) error {
	e, ok := errors.AsType[*driver.Error](err)
	if !ok {
		return err
	}
	const primary = 0xff // the rest of a code is detail
	switch e.Code() & primary {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN:
		return fmt.Errorf("%w: %w", store.ErrFull, err)
	}
	return err
}
