package table

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/pressly/goose/v3"

	"aloft/internal/fault"
)

// Migrate brings the schema of a database up to date with the files in the
// folder migrations. It returns the fault store_too_new, and changes nothing, if
// a newer version of Aloft has migrated the database. Only one process may call
// it at a time.
func Migrate(ctx context.Context, db *sql.DB, dialect goose.Dialect, migrations fs.FS, logger *slog.Logger) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(dialect, db, files, goose.WithDisableGlobalRegistry(true))
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
