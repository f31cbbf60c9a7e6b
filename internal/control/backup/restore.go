package backup

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"

	"aloft/internal/control/image"
	"aloft/internal/control/layer"
	"aloft/internal/fault"
)

// Limits on the files that Restore reads into memory, in bytes.
const (
	maxDocument = 1 << 20
	maxManifest = 1 << 30
)

// RestoreOptions name the folder to restore a backup to, and the keys that
// decrypt it.
type RestoreOptions struct {
	Data       string // the data folder, which must be empty or absent
	Identities []age.Identity
	Progress   func(name string, bytes int64) // as in [Options]
	Logger     *slog.Logger
}

// Restore writes the backup in r to a data folder. It first writes all files to
// a new folder beside the data folder, verifies them, and then renames the new
// folder. If Restore fails or is killed before the rename, the data folder is
// unchanged.
func Restore(ctx context.Context, r io.Reader, o RestoreOptions) (sum Summary, err error) {
	target, err := newTarget(o.Data)
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, target.close()) }()
	plain, err := age.Decrypt(reader{ctx, r}, o.Identities...)
	if err != nil {
		return sum, notReadable(err)
	}
	unpacked, err := zstd.NewReader(plain)
	if err != nil {
		return sum, notReadable(err)
	}
	defer unpacked.Close()
	room := &roomReader{Reader: unpacked, dir: target.dir}
	d := &restoration{RestoreOptions: o, dir: target.dir, root: target.root, src: room}
	if d.Progress == nil {
		d.Progress = func(string, int64) {}
	}
	if err := d.read(ctx); err != nil {
		if room.full != nil { // err may call the backup damaged
			err = room.full
		}
		return sum, errors.Join(err, d.close())
	}
	if err := d.close(); err != nil {
		return sum, err
	}
	if err := d.finishFolders(); err != nil {
		return sum, err
	}
	return d.sum, target.commit()
}

func notReadable(err error) error {
	if missing, ok := errors.AsType[*age.NoIdentityMatchError](err); ok {
		return fault.Denied("cannot decrypt the backup: %v", missing).Named("wrong_key").
			Hint("use the passphrase, or the identity of a recipient, with which it was made")
	}
	return damaged("it cannot be read: %v", err)
}

func damaged(format string, args ...any) error {
	return fault.Invalid("the backup is damaged or incomplete: "+format, args...).Named("backup_damaged").
		Hint("nothing was restored; use another copy or an older backup")
}

// A restoration is a restore in progress, to the folder dir.
type restoration struct {
	RestoreOptions

	dir     string
	root    *os.Root // root at dir
	src     io.Reader
	sum     Summary
	files   []file
	bytes   int64
	folders []*tar.Header
	pending *layer.Layer // layer whose files come next

	layers *layer.Store // nil until the first layer
	images *image.Store // nil until the first image
}

func (d *restoration) close() error {
	if d.layers == nil {
		return nil
	}
	err := d.layers.Close()
	d.layers = nil
	return err
}

// read reads the whole archive, whose last entry must be the manifest.
func (d *restoration) read(ctx context.Context) error {
	entries := tar.NewReader(d.src)
	for first := true; ; first = false {
		h, err := entries.Next()
		if err != nil {
			return damaged("it ends without its manifest: %v", err)
		}
		if first != (h.Name == headerName) {
			return damaged("unexpected entry %q", h.Name)
		}
		if len(d.files)+len(d.folders) >= maxFiles && h.Name != manifestName {
			return damaged("it has more than %d files", maxFiles)
		}
		d.Progress(h.Name, d.bytes)
		if h.Name == manifestName {
			return d.verify(entries, h)
		}
		if h.Typeflag == tar.TypeDir {
			if err := d.folder(h); err != nil {
				return err
			}
			continue
		}
		if h.Typeflag != tar.TypeReg {
			return damaged("%q is neither a file nor a folder", h.Name)
		}
		sum := sha256.New()
		if err := d.entry(ctx, h, io.TeeReader(entries, sum)); err != nil {
			return err
		}
		d.files = append(d.files, file{h.Name, h.Size, hex.EncodeToString(sum.Sum(nil))})
		d.bytes += h.Size
	}
}

// entry restores one file. It reads all of r.
func (d *restoration) entry(ctx context.Context, h *tar.Header, r io.Reader) error {
	kind, name, _ := strings.Cut(h.Name, "/")
	var err error
	switch {
	case h.Name == headerName:
		err = d.header(h, r)
	case kind == "data":
		err = d.file(h, name, r)
	case kind == "layers":
		err = d.layer(ctx, h, name, r)
	case kind == "images":
		err = d.image(ctx, h, name, r)
	default:
		return damaged("unexpected entry %q", h.Name)
	}
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, r); err != nil { // bytes that an unpacker has not read
		return damaged("%q: %v", h.Name, err)
	}
	return nil
}

func (d *restoration) header(h *tar.Header, r io.Reader) error {
	var got header
	if err := decode(h, r, maxDocument, &got); err != nil {
		return err
	}
	if got.Format > Format {
		return fault.Conflict("the backup has format %d and was made by aloft %q; this aloft reads formats up to %d", got.Format, got.Aloft, Format).
			Named("backup_too_new").Hint("restore it with that version of aloft, or a newer one")
	}
	if got.Format < 1 {
		return damaged("its format is %d", got.Format)
	}
	d.sum.Created = got.Created
	return nil
}

func decode(h *tar.Header, r io.Reader, limit int64, v any) error {
	if h.Size > limit {
		return damaged("%q is larger than %d MiB", h.Name, limit>>20)
	}
	text, err := io.ReadAll(r)
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return damaged("%q: %v", h.Name, err)
	}
	return nil
}

// verify compares the restored files with the manifest. Then it reads the rest
// of the backup, which proves that the backup is complete.
func (d *restoration) verify(entries *tar.Reader, h *tar.Header) error {
	var m manifest
	if err := decode(h, entries, maxManifest, &m); err != nil {
		return err
	}
	if !slices.Equal(m.Files, d.files) {
		return damaged("its files do not match its manifest")
	}
	if _, err := entries.Next(); !errors.Is(err, io.EOF) {
		return damaged("it continues after its manifest")
	}
	if n, err := io.Copy(io.Discard, d.src); err != nil || n > 0 {
		return damaged("%d bytes after its end, %v", n, err)
	}
	if !slices.ContainsFunc(d.files, func(f file) bool { return f.Name == "data/"+database }) {
		return damaged("it has no database")
	}
	d.sum.Files, d.sum.Bytes = len(d.files)+1, d.bytes+h.Size
	return nil
}

// folder creates a folder. The mode is set at the end, because it may forbid
// writing.
func (d *restoration) folder(h *tar.Header) error {
	name, ok := strings.CutPrefix(strings.TrimSuffix(h.Name, "/"), "data/")
	if !ok || !mayHold(name, true) {
		return damaged("unexpected folder %q", h.Name)
	}
	if err := d.root.MkdirAll(name, 0o700); err != nil {
		return err
	}
	h.Name = name
	d.folders = append(d.folders, h)
	return nil
}

func (d *restoration) finishFolders() error {
	for _, h := range slices.Backward(d.folders) {
		if err := d.attributes(h.Name, h); err != nil {
			return err
		}
	}
	return nil
}

func (d *restoration) file(h *tar.Header, name string, r io.Reader) (err error) {
	if !mayHold(name, false) {
		return damaged("unexpected file %q", h.Name)
	}
	if err := d.root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := d.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return damaged("%q occurs twice", h.Name)
	}
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("restore %q: %w", h.Name, err)
	}
	return d.attributes(name, h)
}

// attributes sets the owner, the mode and the time of a file.
func (d *restoration) attributes(name string, h *tar.Header) error {
	if h.Uid != os.Geteuid() || h.Gid != os.Getegid() {
		if err := d.root.Lchown(name, h.Uid, h.Gid); err != nil {
			return fmt.Errorf("restore the owner: %w", err)
		}
	}
	if err := d.root.Chmod(name, fs.FileMode(h.Mode)&fs.ModePerm); err != nil {
		return err
	}
	return d.root.Chtimes(name, time.Time{}, h.ModTime)
}

// layer restores a layer's description, or the files of the layer whose
// description came last.
func (d *restoration) layer(ctx context.Context, h *tar.Header, name string, r io.Reader) (err error) {
	if strings.HasSuffix(name, ".json") && d.pending == nil {
		d.pending = new(layer.Layer)
		return decode(h, r, maxDocument, d.pending)
	}
	if d.pending == nil || name != d.pending.ID+".tar" {
		return damaged("unexpected entry %q", h.Name)
	}
	if d.layers == nil {
		if d.layers, err = layer.Open(filepath.Join(d.dir, layersPath), d.Logger); err != nil {
			return err
		}
	}
	l := *d.pending
	d.pending = nil
	return d.layers.Add(ctx, l, r)
}

// image restores the record of an image, or one of its layers.
func (d *restoration) image(ctx context.Context, h *tar.Header, name string, r io.Reader) (err error) {
	if d.images == nil {
		if d.images, err = image.Open(filepath.Join(d.dir, imagesPath), image.Options{}); err != nil {
			return err
		}
	}
	if key, ok := strings.CutPrefix(name, "layers/"); ok {
		return d.images.AddLayer(ctx, key, r)
	}
	var record image.Record
	if err := decode(h, r, maxDocument, &record); err != nil {
		return err
	}
	return d.images.AddRecord(record)
}
