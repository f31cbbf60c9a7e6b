package execd

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"aloft/internal/fault"
)

// DefaultArtifacts is the folder for files that should outlive the machine.
const DefaultArtifacts = "/opt/cursor/artifacts"

// Limits on listing artifacts.
const (
	maxArtifacts = 10_000
	maxDepth     = 16 // folders
)

// uploading is the name prefix of files that pod-daemon's UploadArtifact has
// not completely received yet.
const uploading = ".upload-"

// artifacts are the regular files in a folder. Symbolic links are not followed,
// since they may point outside it. Its methods are safe for concurrent use.
type artifacts struct {
	dir string

	mu   sync.Mutex
	sums map[string]sum // digest cache, by name
}

// artifact is one file.
type artifact struct {
	name     string // slash-separated
	size     int64
	modified time.Time
	sha256   string
}

// sum is the cached digest of a file, and the state of the file when it was
// computed.
type sum struct {
	size     int64
	modified time.Time
	inode    uint64
	sha256   string
	settled  bool // the file was last changed well before it was read
}

// clockTick is the coarsest modification-time granularity of any file system:
// two changes within it may have the same time.
const clockTick = 2 * time.Second

func newArtifacts(dir string) *artifacts { return &artifacts{dir: dir, sums: map[string]sum{}} }

// root opens the folder. Files opened through the result cannot be outside the folder.
// root returns nil if the folder does not exist.
func (a *artifacts) root() (*os.Root, error) {
	root, err := os.OpenRoot(a.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fileFault(a.dir, err)
	}
	return root, nil
}

// names lists the artifacts by name. more reports that the list was cut off.
func (a *artifacts) names(root *os.Root) (names []string, more bool, err error) {
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
			return nil // removed meanwhile, or not readable
		case err != nil:
			return err
		case entry.IsDir() && strings.Count(name, "/") >= maxDepth:
			return fs.SkipDir
		case !entry.Type().IsRegular() || !utf8.ValidString(name), strings.HasPrefix(path.Base(name), uploading):
			return nil
		case len(names) == maxArtifacts:
			more = true
			return fs.SkipAll
		}
		names = append(names, name)
		return nil
	})
	if err != nil {
		return nil, false, fileFault(a.dir, err)
	}
	slices.Sort(names)
	return names, more, nil
}

// open opens an artifact.
func (a *artifacts) open(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	if root == nil || !fs.ValidPath(name) || name == "." {
		return nil, nil, fault.NotFound("no artifact %.200q", name).At("names")
	}
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, nil, fileFault(path.Join(a.dir, name), err)
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fault.Invalid("%.200q is not a regular file", name).At("names")
	}
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, info, nil
}

// list describes every artifact.
func (a *artifacts) list(ctx context.Context) (list []artifact, more bool, err error) {
	root, err := a.root()
	if err != nil || root == nil {
		return nil, false, err
	}
	defer root.Close()
	names, more, err := a.names(root)
	if err != nil {
		return nil, false, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	known := make(map[string]sum, len(names))
	for _, name := range names {
		if ctx.Err() != nil {
			return nil, false, context.Cause(ctx)
		}
		file, info, err := a.open(root, name)
		if err != nil {
			continue // removed meanwhile, or not readable
		}
		now, err := a.digest(ctx, name, file, info)
		_ = file.Close()
		if err != nil {
			return nil, false, err
		}
		known[name] = now
		list = append(list, artifact{name: name, size: now.size, modified: now.modified, sha256: now.sha256})
	}
	a.sums = known
	slices.SortFunc(list, func(x, y artifact) int { return cmp.Compare(x.name, y.name) })
	return list, more, nil
}

// digest returns the file's digest, from the cache if the file has not changed.
// a.mu must be held.
func (a *artifacts) digest(ctx context.Context, name string, file io.Reader, info fs.FileInfo) (sum, error) {
	now := sum{size: info.Size(), modified: info.ModTime()}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		now.inode = stat.Ino
	}
	if old := a.sums[name]; old.size == now.size && old.modified.Equal(now.modified) && old.inode == now.inode && old.settled {
		return old, nil
	}
	now.settled = time.Since(now.modified) > clockTick
	h := sha256.New()
	if _, err := io.Copy(h, &untilDone{ctx, io.LimitReader(file, now.size)}); err != nil {
		return sum{}, fileFault(path.Join(a.dir, name), err)
	}
	now.sha256 = hex.EncodeToString(h.Sum(nil))
	return now, nil
}

// untilDone is a reader that fails once ctx ends.
type untilDone struct {
	ctx  context.Context //nolint:containedctx // used for a single copy
	from io.Reader
}

func (u *untilDone) Read(b []byte) (int, error) {
	if u.ctx.Err() != nil {
		return 0, context.Cause(u.ctx)
	}
	return u.from.Read(b)
}
