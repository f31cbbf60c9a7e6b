package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"log/slog"

	"github.com/google/uuid"
	"github.com/pressly/goose/v3"

	"aloft/internal/control/store/table"
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
	return table.Migrate(ctx, db, goose.DialectSQLite3, migrations, logger)
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
