package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"

	"aloft/internal/atomicfile"
	"aloft/internal/control/machine/container"
	"aloft/internal/control/store"
	"aloft/internal/control/store/postgres"
	"aloft/internal/control/store/sqlite"
	"aloft/internal/fault"
)

// database is what the server remembers, wherever it is.
type database interface {
	store.Journal
	store.Agents
	store.Leases
	store.Accounts
	store.Members
	store.SignIns
	store.AuditLog
	store.Usage
	store.Builds
	store.Environments
	store.Snapshots
	store.Rules
	store.Secrets
	store.Deliveries
	store.Replies
	ServerID() string
	Close() error
}

// boundFile names the server whose store is in PostgreSQL, in its data folder. The
// database has the same name in it: with any other, and with none, all machines in
// the folder would look as if their agents were gone, and be destroyed.
const boundFile = "store.id"

// openStore opens the PostgreSQL database at address, or the file in the data
// folder where there is none.
func openStore(ctx context.Context, address, data string, logger *slog.Logger) (database, error) {
	if address != "" {
		return openPostgres(ctx, address, data, logger)
	}
	if _, err := os.Stat(filepath.Join(data, boundFile)); err == nil {
		return nil, fault.Conflict("the store that goes with %s is in PostgreSQL, and no address is given", data).
			Named("store_elsewhere").Hint("give its address by ALOFT_STORE or the configuration's store, or take another data folder")
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	s, err := sqlite.Open(ctx, filepath.Join(data, "aloft.db"), logger)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// remote is a store in PostgreSQL, and the lock of the data folder that goes with it.
type remote struct {
	*postgres.Store
	lock *os.File
}

func (r remote) Close() error { return errors.Join(r.Store.Close(), r.lock.Close()) }

func openPostgres(ctx context.Context, address, data string, logger *slog.Logger) (_ database, err error) {
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
		return nil, fault.Conflict("the store that goes with %s is the file aloft.db in it", data).
			Named("store_elsewhere").Hint("start without an address of a store, or with a data folder of its own")
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	id, known, err := folderID(filepath.Join(data, boundFile))
	if err != nil {
		return nil, err
	}
	r.Store, err = postgres.Open(ctx, address, id, logger)
	if errors.Is(err, store.ErrUnreachable) {
		return nil, fault.Unavailable("%v", err).Named("store_unreachable").Hint("start PostgreSQL, or mend the address; `aloft doctor` tries it")
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

// folderID returns the id of the data folder, and whether a database is known to
// have it. Until one does it is in a file beside, so that a start that is cut off is
// gone on with.
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
	return id, false, errors.Join(err, f.Sync(), f.Close()) // before a database has it
}

// storeAddress is where the store is: what the flag says, the variable, or the
// configuration. A flag is seen by everybody on the host, and so has no password.
func storeAddress(flag, variable, configured string) (string, error) {
	before, _, at := strings.Cut(flag, "@")
	_, user, _ := strings.Cut(before, "://")
	if strings.Contains(flag, "password") || at && strings.Contains(user, ":") {
		return "", usageError{errors.New("--store has a password, which everybody on this host could read: put the address into ALOFT_STORE or the configuration's store, or the password into PGPASSWORD or ~/.pgpass")}
	}
	return cmp.Or(flag, variable, configured), nil
}

// probeStore says whether the database at address can be had.
func probeStore(ctx context.Context, address string) []container.Check {
	if address == "" {
		return nil
	}
	c := container.Check{Name: "store", Required: true}
	detail, err := postgres.Probe(ctx, address)
	if c.OK, c.Detail = err == nil, detail; err != nil {
		c.Detail, c.Fix = fmt.Sprint(err), cmp.Or(fault.Of(err).Advice, "start PostgreSQL, or mend ALOFT_STORE or the configuration's store")
	}
	return []container.Check{c}
}
