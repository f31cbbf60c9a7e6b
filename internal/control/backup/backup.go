// Package backup writes the data folder of a server into one encrypted file while the
// server runs, and restores such a file into an empty folder.
//
// A backup is a tar archive, compressed with zstd and encrypted with age. Its first entry
// is header.json, with the version of the format. Its last entry is manifest.json, with
// the size and SHA-256 of every file. Between them are
//
//	data/…              files of the data folder, under their own names
//	layers/ID.json      description of a kept layer, or of a layer below it
//	layers/ID.tar       files of that layer (see package layer)
//	images/layers/KEY   files of a layer of an image that no registry has
//	images/ID.json      record of an image that no registry has
//
// For each entry of the data folder, [Folder] says whether a backup contains it. The
// encryption proves that a file made with a passphrase comes from somebody who knows it.
// A file made for a public key may come from anybody, so Restore trusts no entry.
package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"

	"aloft/internal/control/image"
	"aloft/internal/control/layer"
	"aloft/internal/fault"
	"aloft/internal/lockfile"
)

// Format is the version of the format. Restore refuses a newer version.
const Format = 1

// Options configure a backup and its recipients.
type Options struct {
	Data    string // the data folder
	Version string // version of this program
	// Database writes a consistent copy of the database file from to the new
	// file to, while a server may use it.
	Database   func(ctx context.Context, from, to string) error
	Recipients []age.Recipient
	Progress   func(name string, bytes int64) // called before each entry, with the bytes read so far; may be nil
	Logger     *slog.Logger
}

// Summary describes a backup.
type Summary struct {
	Created  time.Time `json:"createdAt"`
	Files    int       `json:"files"`
	Bytes    int64     `json:"bytes"`             // size of all files before compression
	Machines int       `json:"machines"`          // number of machines; the backup does not contain their disks
	LeftOut  []string  `json:"leftOut,omitempty"` // reasons why saved disks were left out, one per disk
	Unknown  []string  `json:"unknown,omitempty"` // unknown entries of the data folder, which were left out
}

// Names in the data folder.
const (
	database   = "aloft.db"
	remoteFile = "store.id"
	workFolder = "backup"
	artifacts  = "artifacts"
	layersPath = "machines/layers"
	imagesPath = "machines/images"
)

// Create writes a backup to w. A server may use the data folder meanwhile. The error is
// a [fault.Conflict] if another backup of the folder is being made, or if the server's
// database is not in the folder.
func Create(ctx context.Context, w io.Writer, o Options) (sum Summary, err error) {
	if err := checkFolder(o.Data); err != nil {
		return sum, err
	}
	work, done, err := openWork(filepath.Join(o.Data, workFolder))
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, done()) }()
	sealed, err := age.Encrypt(w, o.Recipients...)
	if err != nil {
		return sum, fmt.Errorf("encrypt: %w", err)
	}
	packed, err := zstd.NewWriter(sealed)
	if err != nil {
		return sum, err
	}
	b := &creation{Options: o, work: work, archive: newArchive(packed, o.Progress)}
	b.sum.Created = time.Now().UTC().Truncate(time.Second)
	if err := b.write(ctx); err != nil {
		return sum, errors.Join(err, packed.Close()) // do not finish the encryption, so that age refuses the incomplete file
	}
	if err := errors.Join(b.archive.tar.Close(), packed.Close(), sealed.Close()); err != nil {
		return sum, err
	}
	b.sum.Files, b.sum.Bytes = len(b.archive.files), b.archive.bytes
	return b.sum, nil
}

func checkFolder(data string) error {
	_, err := os.Stat(filepath.Join(data, database))
	if err == nil {
		return nil
	}
	if _, err := os.Stat(filepath.Join(data, remoteFile)); err == nil {
		return fault.Conflict("the database of %s is in PostgreSQL", data).Named("store_elsewhere").
			Hint("back up the database with pg_dump, and copy the data folder while the server is stopped")
	}
	return fault.NotFound("there is no data of a server in %s: %v", data, err).Named("no_data").
		Hint("set the server's data folder with --data, and run this as root on its host")
}

// openWork empties and locks the folder for the temporary files of a backup.
// done empties it again.
func openWork(dir string) (string, func() error, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", nil, err
	}
	f, err := lockfile.Open(dir)
	if errors.Is(err, lockfile.ErrHeld) {
		err = fault.Conflict("another backup of this data folder is being made").Named("backup_running").Hint("wait until it is done")
	}
	if err != nil {
		return "", nil, err
	}
	if err := empty(dir); err != nil {
		return "", nil, errors.Join(err, f.Close())
	}
	return dir, func() error { return errors.Join(empty(dir), f.Close()) }, nil
}

func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}

// A creation is a backup in progress.
type creation struct {
	Options

	work    string
	archive *archive
	sum     Summary
}

// write writes all entries. The database comes first, so that the backup
// contains all files that the database names, unless they were deleted
// meanwhile.
func (b *creation) write(ctx context.Context) (err error) {
	if err := b.archive.document(headerName, header{Format: Format, Aloft: b.Version, Created: b.sum.Created}); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{b.database, b.artifacts, b.copied, b.layers, b.images} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if b.sum.Unknown, err = Unknown(b.Data); err != nil {
		return err
	}
	machines, err := os.ReadDir(filepath.Join(b.Data, "machines", "machines"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	b.sum.Machines = len(machines)
	return b.archive.document(manifestName, manifest{Files: b.archive.files})
}

func (b *creation) database(ctx context.Context) error {
	copied := filepath.Join(b.work, database)
	if err := b.Database(ctx, filepath.Join(b.Data, database), copied); err != nil {
		return err
	}
	if err := b.archive.path(ctx, copied, "data/"+database); err != nil {
		return err
	}
	return os.Remove(copied)
}

// copied writes the entries that are copied unchanged, and the folders that
// contain them.
func (b *creation) copied(ctx context.Context) error {
	for _, e := range Folder {
		if e.How != Copied && e.How != Inside {
			continue
		}
		names, err := matching(b.Data, e.Name)
		if err != nil {
			return err
		}
		for _, name := range names {
			if at := filepath.Join(b.Data, name); e.How == Inside {
				err = b.archive.folder(at, "data/"+name)
			} else {
				err = b.archive.tree(ctx, at, "data/"+name)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// matching returns the paths in the data folder that match the name of an [Entry].
func matching(data, pattern string) (names []string, err error) {
	dir, _ := path.Split(pattern)
	entries, err := os.ReadDir(filepath.Join(data, dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if ok, _ := path.Match(pattern, dir+e.Name()); ok {
			names = append(names, dir+e.Name())
		}
	}
	return names, err
}

// layers writes the kept layers and the layers below them, lowest first.
func (b *creation) layers(ctx context.Context) (err error) {
	dir := filepath.Join(b.Data, layersPath)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	s, err := layer.Open(dir, b.Logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	kept, err := s.List()
	if err != nil {
		return err
	}
	written := map[string]bool{}
	for _, l := range kept {
		stack, release, err := s.Pin(l.ID)
		if fault.Is(err, fault.KindNotFound) {
			continue // deleted meanwhile
		}
		if err != nil {
			return err
		}
		slices.Reverse(stack)
		for _, l := range stack {
			if err != nil || written[l.ID] {
				continue
			}
			if err = s.Archivable(ctx, l.ID); fault.Is(err, fault.KindExhausted) {
				// Skip the layer: a failure of one disk must not prevent the
				// backup of all others. Skip also the layers above it, which
				// are useless without it.
				if words := fault.Of(err).Message; !slices.Contains(b.sum.LeftOut, words) {
					b.sum.LeftOut = append(b.sum.LeftOut, words)
				}
				err = nil
				break
			}
			if err == nil {
				written[l.ID], err = true, b.layer(ctx, s, l)
			}
		}
		release()
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *creation) layer(ctx context.Context, s *layer.Store, l layer.Layer) error {
	if err := b.archive.document("layers/"+l.ID+".json", l); err != nil {
		return err
	}
	return b.archive.stream("layers/"+l.ID+".tar", func(w io.Writer) error { return s.Archive(ctx, w, l.ID) })
}

// images writes the images that no registry has. After a restore, the server pulls
// the others again.
func (b *creation) images(ctx context.Context) error {
	dir := filepath.Join(b.Data, imagesPath)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	s, err := image.Open(dir, image.Options{})
	if err != nil {
		return err
	}
	records, err := s.Unpublished()
	if err != nil {
		return err
	}
	written := map[string]bool{}
	for i, r := range records {
		for _, key := range r.Layers {
			if written[key] {
				continue
			}
			written[key] = true
			if err := b.archive.stream("images/layers/"+key, func(w io.Writer) error { return layer.Pack(ctx, w, s.LayerDir(key)) }); err != nil {
				return err
			}
		}
		if err := b.archive.document(fmt.Sprintf("images/%d.json", i), r); err != nil {
			return err
		}
	}
	return nil
}
