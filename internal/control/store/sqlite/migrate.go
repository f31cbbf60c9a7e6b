package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/pressly/goose/v3"

	"aloft/internal/control/store/table"
	"aloft/internal/fault"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrate migrates the schema, over a separate connection.
func migrate(ctx context.Context, path string, logger *slog.Logger) (err error) {
	db, err := sql.Open("sqlite", dsn(path))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)

	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, files, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	at, ours, err := p.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("read the schema's version: %w", err)
	}
	if at > ours {
		return fault.Conflict("a newer version of aloft has written it: its schema is version %d, this aloft supports %d", at, ours).
			Named("store_too_new").Hint("start that version, or restore an older backup")
	}
	begun := time.Now()
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("bring the schema up to date: %w", err)
	}
	if at < ours {
		logger.InfoContext(ctx, "schema brought up to date", "from", at, "to", ours, "took", time.Since(begun))
	}
	return nil
}

// ServerID returns the name under which this server takes leases. It stays the
// same across restarts, so that the server can take over its own leases without
// waiting for them to expire.
func (s *Store) ServerID() string { return s.serverID }

func (s *Store) findServerID(ctx context.Context) (string, error) {
	var id string
	err := s.db.QueryRowContext(ctx, "SELECT id FROM server").Scan(&id)
	if !errors.Is(err, sql.ErrNoRows) {
		return id, err
	}
	id = "server-" + uuid.NewString()
	return id, s.Write(ctx, "", func(tx *table.Tx) error {
		tx.Wrote = true
		_, err := s.writer.conn.ExecContext(tx.Ctx, "INSERT INTO server (one, id) VALUES (1, ?)", id)
		return err
	})
}
