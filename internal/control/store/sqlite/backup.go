package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"

	"modernc.org/sqlite"
)

// Copy writes a consistent copy of the database in the file from to the new
// file to. A server may use the database meanwhile: the copy is a snapshot of
// one moment. Copy cannot be interrupted.
func Copy(ctx context.Context, from, to string) error {
	if err := doCopy(ctx, from, to); err != nil {
		return fmt.Errorf("copy the database %s: %w", from, err)
	}
	return nil
}

func doCopy(ctx context.Context, from, to string) (err error) {
	if _, err := os.Stat(from); err != nil { // SQLite would create a missing file
		return err
	}
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", dsn(from))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return conn.Raw(func(driver any) error {
		source, ok := driver.(interface {
			NewBackup(name string) (*sqlite.Backup, error)
		})
		if !ok {
			return errors.New("the driver cannot copy a database")
		}
		b, err := source.NewBackup(to)
		if err != nil {
			return err
		}
		// Copy all pages in one step, within one read transaction. With several
		// steps, each write of the server would restart the copy.
		_, err = b.Step(-1)
		return errors.Join(err, b.Finish())
	})
}
