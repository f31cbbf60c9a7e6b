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
	"os"
	"path"
	"path/filepath"
	"syscall"
	"time"

	"aloft/internal/fault"
)

// The names of the first and the last entry.
const (
	headerName   = "header.json"
	manifestName = "manifest.json"
)

type header struct {
	Format  int       `json:"format"`
	Aloft   string    `json:"aloft"` // version of the program
	Created time.Time `json:"createdAt"`
}

type manifest struct {
	Files []file `json:"files"`
}

// A file is one file of the archive, other than the manifest.
type file struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"` // SHA-256 in hex
}

// An archive is a backup that is being written.
type archive struct {
	tar      *tar.Writer
	files    []file
	bytes    int64
	progress func(name string, bytes int64)
}

func newArchive(w io.Writer, progress func(string, int64)) *archive {
	if progress == nil {
		progress = func(string, int64) {}
	}
	return &archive{tar: tar.NewWriter(w), progress: progress}
}

// add adds a file of h.Size bytes. write writes the file's content.
func (a *archive) add(h *tar.Header, write func(io.Writer) error) error {
	a.progress(h.Name, a.bytes)
	if len(a.files) >= maxFiles && h.Name != manifestName {
		return fault.Exhausted("a backup cannot have more than %d files", maxFiles).Hint("delete agents with many artifacts")
	}
	h.Format, h.Typeflag = tar.FormatPAX, tar.TypeReg
	if err := a.tar.WriteHeader(h); err != nil {
		return err
	}
	sum := sha256.New()
	if err := write(io.MultiWriter(a.tar, sum)); err != nil {
		return fmt.Errorf("back up %q: %w", h.Name, err)
	}
	if err := a.tar.Flush(); err != nil { // fails if write wrote fewer bytes
		return fmt.Errorf("back up %q: %w", h.Name, err)
	}
	a.files = append(a.files, file{h.Name, h.Size, hex.EncodeToString(sum.Sum(nil))})
	a.bytes += h.Size
	return nil
}

// document adds a file with v as JSON.
func (a *archive) document(name string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return a.add(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(text))}, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// stream adds a file of unknown size. It calls write twice, and both calls must
// write the same bytes. The first call only counts the bytes, so stream needs
// no temporary file.
func (a *archive) stream(name string, write func(io.Writer) error) error {
	a.progress(name, a.bytes)
	var n counter
	if err := write(&n); err != nil {
		return fmt.Errorf("back up %q: %w", name, err)
	}
	return a.add(&tar.Header{Name: name, Mode: 0o600, Size: int64(n)}, write)
}

type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// folder adds a folder's mode and owner.
func (a *archive) folder(dir, name string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	h, err := headerOf(info, name+"/")
	if err != nil {
		return err
	}
	h.Format, h.Typeflag = tar.FormatPAX, tar.TypeDir
	return a.tar.WriteHeader(h)
}

func headerOf(info fs.FileInfo, name string) (*tar.Header, error) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, errors.New("no owner")
	}
	return &tar.Header{Name: name, Mode: int64(info.Mode().Perm()), Uid: int(st.Uid), Gid: int(st.Gid), ModTime: info.ModTime()}, nil
}

// tree adds a file, or a folder with its contents. It skips entries that are
// deleted meanwhile, and entries that are neither files nor folders.
func (a *archive) tree(ctx context.Context, dir, name string) error {
	return filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, at)
		if err != nil {
			return err
		}
		to := path.Join(name, filepath.ToSlash(rel))
		switch {
		case d.IsDir():
			err = a.folder(at, to)
		case d.Type().IsRegular():
			err = a.path(ctx, at, to)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}

// path adds a file with the content that it has when it is opened. It ignores
// bytes that are appended meanwhile.
func (a *archive) path(ctx context.Context, from, name string) (err error) {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	f, err := os.OpenFile(from, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	h, err := headerOf(info, name)
	if err != nil {
		return err
	}
	h.Size = info.Size()
	return a.add(h, func(w io.Writer) error {
		_, err := io.CopyN(w, reader{ctx, f}, h.Size)
		return err
	})
}

// reader reads until ctx is done.
type reader struct {
	ctx context.Context
	r   io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.r.Read(p)
}
