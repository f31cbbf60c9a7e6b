package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// index is a file in an agent's folder of artifacts that lists the artifacts.
// The server first replaces the index by a rename, and then deletes the files
// that the new index no longer lists.
const index = "index.json"

// rounds is how often to retry an agent's artifacts if they change meanwhile.
const rounds = 20

// artifacts writes the artifacts. It first gives each agent's files a second name (a
// hard link) in the work folder, because the server may delete them while the backup
// reads. The server never changes a file: it replaces it.
func (b *creation) artifacts(ctx context.Context) error {
	from, to := filepath.Join(b.Data, artifacts), filepath.Join(b.work, artifacts)
	agents, err := os.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	for _, e := range agents {
		if !e.IsDir() {
			continue
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if err := b.link(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return fmt.Errorf("artifacts of %s: %w", e.Name(), err)
		}
	}
	return b.archive.tree(ctx, to, "data/"+artifacts)
}

// link links an agent's files. It retries if the index changes meanwhile.
func (b *creation) link(from, to string) error {
	for range rounds {
		before, err := indexOf(from)
		if err != nil {
			return err
		}
		if before == nil {
			return nil // the agent has no artifacts, or is being deleted
		}
		if err := linkTree(from, to); err != nil {
			return err
		}
		after, err := indexOf(from)
		if err != nil {
			return err
		}
		if after != nil && os.SameFile(before, after) && before.ModTime().Equal(after.ModTime()) {
			return nil
		}
		if err := os.RemoveAll(to); err != nil {
			return err
		}
	}
	return errors.New("they change too often to be copied")
}

func indexOf(dir string) (fs.FileInfo, error) {
	info, err := os.Lstat(filepath.Join(dir, index))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return info, err
}

func linkTree(from, to string) error {
	return filepath.WalkDir(from, func(at string, d fs.DirEntry, err error) error {
		if err == nil {
			var rel string
			if rel, err = filepath.Rel(from, at); err != nil {
				return err
			}
			switch {
			case d.IsDir():
				err = os.Mkdir(filepath.Join(to, rel), 0o700)
			case d.Type().IsRegular():
				err = os.Link(at, filepath.Join(to, rel))
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}
