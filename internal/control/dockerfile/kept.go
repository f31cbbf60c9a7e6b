package dockerfile

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"aloft/internal/fault"
	"aloft/internal/lockfile"
)

// keptPrefix is the name prefix of the folders of repositories in an engine's
// folder.
const keptPrefix = "repository-"

// cellOf returns the name of the repository's folder and its first user id.
func cellOf(repository string) (name string, firstID uint32) {
	sum := sha256.Sum256([]byte(repository))
	return keptPrefix + hex.EncodeToString(sum[:12]), firstCellID + cellIDs*(binary.BigEndian.Uint32(sum[12:])%cellRanges)
}

// Keep returns the folder of the engine's caches for the job's repository,
// which is below an engine's folder. Builds of other repositories cannot see
// the caches. The folder is locked until the build calls done. clean is false
// if the previous build was interrupted.
func (j Job) Keep(ctx context.Context, dir string) (kept string, clean bool, done func(ended bool), err error) {
	name, _ := cellOf(j.Repository)
	own := filepath.Join(dir, name)
	kept = filepath.Join(own, "kept")
	if err := os.MkdirAll(own, 0o700); err != nil {
		return "", false, nil, err
	}
	lock, err := lockfile.Create(ctx, filepath.Join(own, "lock"))
	if err != nil {
		return "", false, nil, err
	}
	busy := filepath.Join(own, "busy")
	_, err = os.Lstat(busy)
	clean = errors.Is(err, fs.ErrNotExist)
	if err = os.Mkdir(kept, 0o700); errors.Is(err, fs.ErrExist) {
		err = nil
	}
	err = errors.Join(err, os.Lchown(kept, int(j.FirstID), int(j.FirstID)), os.WriteFile(busy, nil, 0o600))
	if err != nil {
		return "", false, nil, errors.Join(err, lock.Close())
	}
	return kept, clean, func(ended bool) {
		if ended {
			_ = os.Remove(busy) // on failure the next build only cleans up unnecessarily
		}
		_ = lock.Close()
	}, nil
}

// PruneKept deletes the caches of all repositories below an engine's folder,
// except those being built.
func PruneKept(dir string) error {
	all, err := filepath.Glob(filepath.Join(dir, keptPrefix+"*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, own := range all {
		f, err := os.OpenFile(filepath.Join(own, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		switch err := lockfile.Exclusive(f, 0); {
		case errors.Is(err, lockfile.ErrHeld):
			errs = append(errs, fault.Conflict("a Dockerfile is being built").Named("build_in_progress").Hint("try again when it is done"))
		case err != nil:
			errs = append(errs, err)
		default:
			errs = append(errs, os.RemoveAll(filepath.Join(own, "kept")), os.RemoveAll(filepath.Join(own, "busy")))
		}
		_ = f.Close()
	}
	return errors.Join(errs...)
}

// copyContext copies a folder and makes a cell's root the owner of the copy. It
// skips everything but files, folders and links.
func copyContext(ctx context.Context, from, to string, id uint32) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		at := filepath.Join(to, rel)
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case info.IsDir():
			err = os.Mkdir(at, 0o700)
		case info.Mode().IsRegular():
			err = copyFile(path, at)
		case info.Mode().Type() == fs.ModeSymlink:
			target, err := os.Readlink(path)
			if err == nil {
				err = os.Symlink(target, at)
			}
			return errors.Join(err, os.Lchown(at, int(id), int(id)))
		default:
			return nil
		}
		if err == nil {
			err = os.Lchown(at, int(id), int(id))
		}
		if err == nil {
			err = os.Chmod(at, info.Mode().Perm())
		}
		return err
	})
}

func copyFile(from, to string) error {
	r, err := os.OpenFile(from, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	w, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return errors.Join(err, w.Close())
}
