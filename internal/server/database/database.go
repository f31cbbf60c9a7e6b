// Package database opens the store of a server: a PostgreSQL database, or a file in
// the data folder.
package database

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"

	"aloft/internal/atomicfile"
	"aloft/internal/control/store"
	"aloft/internal/control/store/postgres"
	"aloft/internal/control/store/sqlite"
	"aloft/internal/fault"
)

// Store is a server's store, in PostgreSQL or in a file.
type Store interface {
	store.Store
	ServerID() string
	Close() error
}

// boundFile is the file in a data folder that contains the folder's id if the
// store is in PostgreSQL. The database contains the same id. Without this
// check, a server that uses the wrong database would find no agents for the
// folder's machines and destroy the machines.
const boundFile = "store.id"

// Open opens the PostgreSQL database at address, or the file in the data folder if
// address is empty.
func Open(ctx context.Context, address, data string, logger *slog.Logger) (Store, error) {
	if address != "" {
		return openPostgres(ctx, address, data, logger)
	}
	if _, err := os.Stat(filepath.Join(data, boundFile)); err == nil {
		return nil, fault.Conflict("the store for %s is in PostgreSQL, but no address is set", data).
			Named("store_elsewhere").Hint("set its address with ALOFT_STORE or the configuration's store, or use another data folder")
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	s, err := sqlite.Open(ctx, filepath.Join(data, "aloft.db"), logger)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// remote is a store in PostgreSQL together with the lock on its data folder.
type remote struct {
	*postgres.Store
	lock *os.File
}

func (r remote) Close() error { return errors.Join(r.Store.Close(), r.lock.Close()) }

func openPostgres(ctx context.Context, address, data string, logger *slog.Logger) (_ Store, err error) {
	kept := filepath.Join(data, "aloft.db")
	lock, err := sqlite.Lock(kept + ".lock")
	if err != nil {
		return nil, err
	}
	r := remote{lock: lock}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Close())
		}
	}()
	if _, err := os.Stat(kept); err == nil {
		return nil, fault.Conflict("the store for %s is the file aloft.db in it", data).
			Named("store_elsewhere").Hint("start without a store address, or use another data folder")
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	id, known, err := folderID(filepath.Join(data, boundFile))
	if err != nil {
		return nil, err
	}
	r.Store, err = postgres.Open(ctx, address, id, logger)
	if errors.Is(err, store.ErrUnreachable) {
		return nil, fault.Unavailable("%v", err).Named("store_unreachable").Hint("start PostgreSQL, or fix the address; test it with `aloft doctor`")
	}
	if err != nil {
		return nil, err
	}
	if known {
		err = r.Bound(ctx, id)
	} else if err = r.Bind(ctx, id); err == nil {
		err = atomicfile.Rename(filepath.Join(data, boundFile+".new"), filepath.Join(data, boundFile))
	}
	if err != nil {
		return nil, errors.Join(err, r.Store.Close())
	}
	return r, nil
}

// folderID returns the id of the data folder, and whether a database is known
// to contain the id. Until a database contains it, the id is in a separate file, so
// that an interrupted first start can be continued.
func folderID(path string) (id string, known bool, err error) {
	for _, file := range []string{path, path + ".new"} {
		text, err := os.ReadFile(file)
		if err == nil && len(text) > 0 {
			return strings.TrimSpace(string(text)), file == path, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", false, err
		}
	}
	id = "server-" + uuid.NewString()
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return "", false, err
	}
	_, err = f.WriteString(id + "\n")
	return id, false, errors.Join(err, f.Sync(), f.Close()) // the id is written before the database gets it
}
