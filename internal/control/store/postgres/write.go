package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"aloft/internal/control/store"
	"aloft/internal/control/store/table"
	"aloft/internal/control/store/table/query"
)

const (
	// attempts is how often a change is tried that came to nothing by no fault of
	// its own.
	attempts = 5
	// pause is between attempts, at most, times their number.
	pause = 20 * time.Millisecond
	// settleWithin is how long a database that was lost amid a commit may take to
	// say what became of it: about what one takes to recover.
	settleWithin = 20 * time.Second
)

// errAgain is of a change that came to nothing and may be tried again.
var errAgain = errors.New("nothing was written")

// Write implements [table.Database].
func (s *Store) Write(ctx context.Context, key string, do func(*table.Tx) error) error {
	for n := 1; ; n++ {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if s.background.Err() != nil {
			return store.ErrClosed
		}
		news, err := s.transact(ctx, key, do)
		if err == nil {
			s.publish(news)
			return nil
		}
		if !errors.Is(err, errAgain) || n == attempts {
			return err
		}
		wait(ctx, rand.N(time.Duration(n)*pause)) //nolint:gosec // so that two do not meet again
	}
}

// wait returns after the time, or when ctx is done.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// transact does it once. The caller's context does not end it: a transaction is
// not to be cut in two, and the database's own patience is short.
func (s *Store) transact(ctx context.Context, key string, do func(*table.Tx) error) (*table.News, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), transactionTimeout)
	defer cancel()
	// Each statement sees what was committed before it; what must not change
	// between two is behind the lock.
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return nil, passing(storeError(err))
	}
	id, err := begin(ctx, tx, key)
	var t *table.Tx
	if err == nil {
		t = &table.Tx{
			Ctx: ctx, Q: query.New(tx), Known: table.NewKnown(), Refused: refused,
			AddEvents: func(rows []query.AddEventParams) error { return addEvents(ctx, tx, rows) },
			Now:       func() (time.Time, error) { return clock(ctx, tx) },
		}
		err = do(t)
	}
	if err != nil {
		_ = tx.Rollback() // or the connection is gone, and it with it
		return nil, passing(err)
	}
	return t.News, s.settled(ctx, id, tx.Commit())
}

// begin waits for its turn, and returns the transaction's number.
func begin(ctx context.Context, tx *sql.Tx, key string) (id string, err error) {
	var locked string
	if key == "" {
		return id, tx.QueryRowContext(ctx, "SELECT pg_current_xact_id()::text").Scan(&id)
	}
	const take = "SELECT pg_current_xact_id()::text, pg_advisory_xact_lock(hashtextextended($1, 0))::text"
	return id, tx.QueryRowContext(ctx, take, key).Scan(&id, &locked)
}

// passing marks an error after which the same change may well succeed: another
// was in its way, or the connection had gone stale.
func passing(err error) error {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		if e.Code == serialization || e.Code == deadlock {
			return fmt.Errorf("%w: %w", errAgain, err)
		}
		return err // it was asked, and has answered
	}
	if errors.Is(err, driver.ErrBadConn) {
		err = fmt.Errorf("%w: %w", store.ErrUnreachable, err)
	}
	if errors.Is(err, store.ErrUnreachable) {
		return fmt.Errorf("%w: %w", errAgain, err)
	}
	return err
}

// settled judges how a commit ended. Where the answer was lost the database is
// asked what became of the transaction.
func (s *Store) settled(ctx context.Context, id string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Severity == "ERROR" || errors.Is(err, pgx.ErrTxCommitRollback) {
		return passing(storeError(err)) // it said no
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.settleWithin)
	defer cancel()
	for n := 1; ctx.Err() == nil; n++ {
		var became sql.NullString
		asked := s.db.QueryRowContext(ctx, "SELECT pg_xact_status($1::text::xid8)", id).Scan(&became)
		switch {
		case asked == nil && became.String == "committed":
			return nil
		case asked == nil && became.String == "aborted":
			return fmt.Errorf("%w: %w: %w", errAgain, store.ErrUnreachable, err)
		case asked == nil && became.String != "in progress", asked != nil && !errors.Is(asked, store.ErrUnreachable) && !errors.Is(asked, driver.ErrBadConn):
			return fmt.Errorf("%w: %w", store.ErrUnknown, errors.Join(err, asked)) // it knows no such transaction: a copy of the database, perhaps
		}
		wait(ctx, min(time.Duration(n)*pause, time.Second))
	}
	return fmt.Errorf("%w: %w", store.ErrUnknown, err)
}

func clock(ctx context.Context, tx *sql.Tx) (time.Time, error) {
	var nanos int64
	err := tx.QueryRowContext(ctx, "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint * 1000").Scan(&nanos)
	return time.Unix(0, nanos), err
}

func addEvents(ctx context.Context, tx *sql.Tx, rows []query.AddEventParams) error {
	if len(rows) == 1 {
		return query.New(tx).AddEvent(ctx, rows[0])
	}
	n := len(rows)
	seqs, runs, times, kinds, data := make([]int64, n), make([]string, n), make([]int64, n), make([]string, n), make([][]byte, n)
	for i, r := range rows {
		seqs[i], runs[i], times[i], kinds[i], data[i] = r.Seq, r.RunID, r.Time, r.Kind, r.Data
	}
	const add = `INSERT INTO events (agent_id, seq, run_id, time, kind, data)
SELECT $1, e.* FROM unnest($2::bigint[], $3::text[], $4::bigint[], $5::text[], $6::bytea[]) e`
	_, err := tx.ExecContext(ctx, add, rows[0].AgentID, seqs, runs, times, kinds, data)
	return err
}
