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
	// attempts is how often a change is tried if it fails because of other
	// transactions or a lost connection.
	attempts = 5
	// pause is the maximum pause after the first attempt. After the n-th attempt
	// it is n times as long.
	pause = 20 * time.Millisecond
	// settleWithin is how long to wait, after the connection was lost during a
	// commit, for the database to report the outcome: about as long as recovery
	// takes.
	settleWithin = 20 * time.Second
)

// errAgain marks a change that wrote nothing and can be retried.
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
		wait(ctx, rand.N(time.Duration(n)*pause)) //nolint:gosec // random, so that two transactions do not collide again
	}
}

// wait returns after the duration, or when ctx is done.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// transact makes one attempt. The end of the caller's context does not abort
// it, so that no transaction is aborted midway; the database's own timeouts are
// short.
func (s *Store) transact(ctx context.Context, key string, do func(*table.Tx) error) (*table.News, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), transactionTimeout)
	defer cancel()
	// Read committed: each statement sees all transactions that were committed
	// before it. The lock prevents changes between two statements.
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
		_ = tx.Rollback() // fails only if the connection, and thus the transaction, is gone
		return nil, passing(err)
	}
	return t.News, s.resolveCommit(ctx, id, tx.Commit())
}

// begin waits for the lock and returns the transaction's number.
func begin(ctx context.Context, tx *sql.Tx, key string) (id string, err error) {
	var locked string
	if key == "" {
		return id, tx.QueryRowContext(ctx, "SELECT pg_current_xact_id()::text").Scan(&id)
	}
	const take = "SELECT pg_current_xact_id()::text, pg_advisory_xact_lock(hashtextextended($1, 0))::text"
	return id, tx.QueryRowContext(ctx, take, key).Scan(&id, &locked)
}

// passing marks errors after which the same change may succeed: a conflict with
// another transaction, or a stale connection.
func passing(err error) error {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		if e.Code == serialization || e.Code == deadlock {
			return fmt.Errorf("%w: %w", errAgain, err)
		}
		return err // the database has processed the request
	}
	if errors.Is(err, driver.ErrBadConn) {
		err = fmt.Errorf("%w: %w", store.ErrUnreachable, err)
	}
	if errors.Is(err, store.ErrUnreachable) {
		return fmt.Errorf("%w: %w", errAgain, err)
	}
	return err
}

// resolveCommit determines the outcome of a commit. If the reply was lost, it asks
// the database what happened to the transaction.
func (s *Store) resolveCommit(ctx context.Context, id string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Severity == "ERROR" || errors.Is(err, pgx.ErrTxCommitRollback) {
		return passing(storeError(err)) // the commit was rejected
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
			return fmt.Errorf("%w: %w", store.ErrUnknown, errors.Join(err, asked)) // the database does not know the transaction, for example because it is a copy
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
