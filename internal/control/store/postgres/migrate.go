package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3"

	"aloft/internal/control/store/table"
	"aloft/internal/fault"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrating takes the lock for migrating the schema.
const migrating = "SELECT pg_advisory_lock(hashtextextended('aloft/schema', 0))"

// migrate migrates the schema, over separate connections without timeouts.
func migrate(ctx context.Context, config *pgx.ConnConfig, logger *slog.Logger) (err error) {
	db := openDB(config)
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := suits(ctx, db); err != nil {
		return err
	}
	held, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, held.Close()) }() // db.Close ends the session, which releases the lock
	if _, err := held.ExecContext(ctx, migrating); err != nil {
		return fmt.Errorf("wait for another server to bring the schema up to date: %w", err)
	}
	return table.Migrate(ctx, db, goose.DialectPostgres, migrations, logger)
}

// Probe returns which PostgreSQL version and database are at the address,
// without changing anything. The error says why the database cannot be used.
func Probe(ctx context.Context, url string) (string, error) {
	config, err := parse(url)
	if err != nil {
		return "", err
	}
	db := openDB(config)
	defer func() { _ = db.Close() }()
	if err := suits(ctx, db); err != nil {
		return "", err
	}
	var version string
	err = db.QueryRowContext(ctx, "SHOW server_version").Scan(&version)
	return "PostgreSQL " + version + ", database " + config.Database, err
}

// Bind reserves the database for the server with the given id; the first caller
// gets it. Other servers get a fault, because one server's machines would look
// orphaned to another.
func (s *Store) Bind(ctx context.Context, id string) error {
	if _, err := s.db.ExecContext(ctx, "INSERT INTO server (one, id) VALUES (1, $1) ON CONFLICT (one) DO NOTHING", id); err != nil {
		return err
	}
	var owner string
	if err := s.db.QueryRowContext(ctx, "SELECT id FROM server").Scan(&owner); err != nil {
		return err
	}
	return bound(owner == id)
}

// Bound returns nil if the database is not reserved, or is reserved for the
// server with the given id. It writes nothing.
func (s *Store) Bound(ctx context.Context, id string) error {
	var owner string
	err := s.db.QueryRowContext(ctx, "SELECT id FROM server").Scan(&owner)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	return bound(owner == id)
}

func bound(yes bool) error {
	if yes {
		return nil
	}
	return fault.Conflict("the database does not belong to this data folder").
		Named("store_elsewhere").Hint("start with the data folder and the address that were used together before, or with an empty folder and an empty database")
}

// suits checks whether the database meets the store's requirements.
func suits(ctx context.Context, db *sql.DB) error {
	var version int
	var encoding string
	const ask = "SELECT current_setting('server_version_num')::int, current_setting('server_encoding')"
	if err := db.QueryRowContext(ctx, ask).Scan(&version, &encoding); err != nil {
		return err
	}
	if version < oldest {
		return fault.Invalid("the PostgreSQL server has version %d; Aloft requires %d", version/10000, oldest/10000).
			Named("store_too_old").Hint("upgrade it, or use another server")
	}
	if encoding != "UTF8" {
		return fault.Invalid("the database's encoding is %s; Aloft requires UTF8", encoding).
			Named("store_encoding").Hint("create one with: createdb --encoding=UTF8 --template=template0 aloft")
	}
	return nil
}
