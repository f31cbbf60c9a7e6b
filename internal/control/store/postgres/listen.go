package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"aloft/internal/control/store/table"
	"aloft/internal/fault"
)

const (
	// channel is where servers tell each other which journals have changed: the
	// sender's id, and agents' ids, with spaces between.
	channel = "aloft_journals"
	// maxNotice bounds a notice, in bytes. PostgreSQL takes less than 8,000.
	maxNotice = 7900
	// lookEvery is how often a server looks for itself at the journals that are
	// waited for, should another have died between a commit and the telling.
	lookEvery = 5 * time.Second
	// reconnectEvery bounds how often it is tried to listen again.
	reconnectEvery = time.Second
	// handedOnWithin is how long what a killed server had open may hold its name.
	handedOnWithin = 5 * time.Second
)

// publish tells those who wait here, and has other servers told.
func (s *Store) publish(n *table.News) {
	if n == nil {
		return
	}
	s.watch.Tell(*n)
	select {
	case s.notices <- n.AgentID:
	default: // the database is behind; the others look for themselves
	}
}

// tell tells other servers, as many journals at a time as there are. A failure
// costs only time: whoever listens has lost the connection as well, or looks.
func (s *Store) tell(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case id := <-s.notices:
			text := s.serverID + " " + id
			for more := true; more && len(text) < maxNotice-256; {
				select {
				case id := <-s.notices:
					if !strings.Contains(text, id) {
						text += " " + id
					}
				default:
					more = false
				}
			}
			// Nothing is lost with a notice, so it need not wait for the disk.
			const say = "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)::text"
			var setting, none string
			if err := s.db.QueryRowContext(ctx, say, channel, text).Scan(&setting, &none); err != nil && ctx.Err() == nil {
				s.logger.DebugContext(ctx, "other servers were not told of events", "error", err)
			}
		}
	}
}

// listen returns a connection on which this server hears others, and which holds
// its name.
func (s *Store) listen(ctx context.Context) (_ *pgx.Conn, err error) {
	config := s.config.Copy()
	config.RuntimeParams["lock_timeout"] = fmt.Sprint(handedOnWithin.Milliseconds())
	c, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, storeError(err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close(context.WithoutCancel(ctx)))
		}
	}()
	_, err = c.Exec(ctx, "SELECT pg_advisory_lock(hashtextextended('aloft/server/' || $1, 0))", s.serverID)
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == lockNotAvailable {
		return nil, fault.Conflict("another server that is called %s uses the store", s.serverID).
			Named("data_in_use").Hint("stop it, or give this one a database of its own")
	}
	if err == nil {
		_, err = c.Exec(ctx, "LISTEN "+channel)
	}
	return c, storeError(err)
}

// hear passes on what other servers tell. When the connection is lost it makes
// another, and looks at what it may have missed.
func (s *Store) hear(ctx context.Context, c *pgx.Conn) {
	for ctx.Err() == nil {
		if c == nil {
			var err error
			if c, err = s.listen(ctx); err != nil {
				s.logger.WarnContext(ctx, "other servers cannot be heard", "error", err)
				wait(ctx, reconnectEvery)
				continue
			}
			s.logger.InfoContext(ctx, "other servers are heard again")
			s.look(ctx, s.watch.Waited(nil))
		}
		until, cancel := context.WithTimeout(ctx, lookEvery)
		notice, err := c.WaitForNotification(until)
		cancel()
		switch {
		case err == nil:
			from, ids, _ := strings.Cut(notice.Payload, " ")
			if from != s.serverID {
				s.look(ctx, s.watch.Waited(strings.Fields(ids)))
			}
		case ctx.Err() == nil && !c.IsClosed() && errors.Is(err, context.DeadlineExceeded):
			s.look(ctx, s.watch.Waited(nil))
		default:
			_ = c.Close(context.WithoutCancel(ctx)) // it is of no more use
			c = nil
		}
	}
	if c != nil {
		_ = c.Close(context.WithoutCancel(ctx))
	}
}

// look tells those who wait for the agents how far their journals reach by now.
func (s *Store) look(ctx context.Context, ids []string) {
	for some := range slices.Chunk(ids, 1000) {
		if err := s.lookAt(ctx, some); err != nil && ctx.Err() == nil {
			s.logger.WarnContext(ctx, "the journals that are waited for cannot be seen", "error", err)
			return // the next look sees them
		}
	}
}

func (s *Store) lookAt(ctx context.Context, ids []string) error {
	rows, err := s.db.QueryContext(ctx, "SELECT id, head FROM agents WHERE id = ANY ($1)", ids)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	gone := map[string]bool{}
	for _, id := range ids {
		gone[id] = true
	}
	for rows.Next() {
		var n table.News
		if err := rows.Scan(&n.AgentID, &n.Head); err != nil {
			return err
		}
		delete(gone, n.AgentID)
		s.watch.Tell(n)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for id := range gone {
		s.watch.Tell(table.News{AgentID: id})
	}
	return nil
}
