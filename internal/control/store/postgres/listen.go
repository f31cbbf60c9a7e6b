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
	// channel is the NOTIFY channel for changed journals. A notification is the
	// sender's id and the agents' ids, separated by spaces.
	channel = "aloft_journals"
	// maxNotice is the maximum length of a notification, in bytes. PostgreSQL's
	// limit is 8,000.
	maxNotice = 7900
	// lookEvery is the interval at which a server checks the journals that it
	// waits for, in case another server died between a commit and its
	// notification.
	lookEvery = 5 * time.Second
	// reconnectEvery is the minimum time between attempts to reconnect.
	reconnectEvery = time.Second
	// handedOnWithin is how long to wait for the connections of a killed server
	// to release its name.
	handedOnWithin = 5 * time.Second
)

// publish wakes local waiters and queues a notification for other servers.
func (s *Store) publish(n *table.News) {
	if n == nil {
		return
	}
	s.watch.Tell(*n)
	select {
	case s.notices <- n.AgentID:
	default: // drop the notification if the queue is full: the other servers also poll
	}
}

// tell notifies other servers, with as many journals per notification as are
// queued. A failure only causes a delay: listeners have lost the connection
// too, or poll.
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
			// A lost notification is harmless, so the commit need not wait for
			// the disk.
			const say = "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)::text"
			var setting, none string
			if err := s.db.QueryRowContext(ctx, say, channel, text).Scan(&setting, &none); err != nil && ctx.Err() == nil {
				s.logger.DebugContext(ctx, "cannot notify other servers of events", "error", err)
			}
		}
	}
}

// listen returns a connection that receives notifications, and that holds the
// lock on this server's name.
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
		return nil, fault.Conflict("another server named %s is using the store", s.serverID).
			Named("data_in_use").Hint("stop it, or give this server its own database")
	}
	if err == nil {
		_, err = c.Exec(ctx, "LISTEN "+channel)
	}
	return c, storeError(err)
}

// hear passes on notifications of other servers. When the connection is lost,
// it reconnects and checks for missed changes.
func (s *Store) hear(ctx context.Context, c *pgx.Conn) {
	for ctx.Err() == nil {
		if c == nil {
			var err error
			if c, err = s.listen(ctx); err != nil {
				s.logger.WarnContext(ctx, "cannot receive notifications of other servers", "error", err)
				wait(ctx, reconnectEvery)
				continue
			}
			s.logger.InfoContext(ctx, "receiving notifications of other servers again")
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
			_ = c.Close(context.WithoutCancel(ctx)) // the connection is no longer usable
			c = nil
		}
	}
	if c != nil {
		_ = c.Close(context.WithoutCancel(ctx))
	}
}

// look reads the last event numbers of the agents' journals, and wakes the
// waiters.
func (s *Store) look(ctx context.Context, ids []string) {
	for some := range slices.Chunk(ids, 1000) {
		if err := s.lookAt(ctx, some); err != nil && ctx.Err() == nil {
			s.logger.WarnContext(ctx, "cannot poll the journals", "error", err)
			return // the next poll finds the changes
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
