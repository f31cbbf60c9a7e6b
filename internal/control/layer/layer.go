// Package layer stores what machines have written, as directories in the
// format of an overlay's upper layer. Each is based on an image or on another
// layer. A saved layer never changes. Saving a layer is an fsync and a rename,
// and starting a machine from a layer is a mount: the cost does not depend on
// the number of files.
//
// A layer is named by an id and not by its content, since digesting 50,000
// files takes longer than saving them. Exported layers are named by content.
//
// A layer stays as long as it is needed: by a person who keeps it (a snapshot,
// an environment's active build), by a claim of a machine or of a copy in
// progress, or by another layer based on it. All state is on disk, in one
// folder, and every change is one rename. So after a crash at any moment each
// layer is either complete or absent:
//
//	meta/ID.json   description of a layer, written before its tree
//	tree/ID        files of the layer
//	claims/NAME    the layers that a claim keeps, and until when
//	work           layers being created
//	trash          layers being deleted
package layer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"aloft/internal/atomicfile"
	"aloft/internal/control/image/unpack"
	"aloft/internal/control/trash"
	"aloft/internal/fault"
	"aloft/internal/lockfile"
)

// The kinds of layers, with which their ids start.
const (
	Snapshot = "snapshot" // saved by a person, or to start other machines from
	Fork     = "fork"     // kept until the machines forked from it have started
	Build    = "bld"      // a built environment
	flat     = "flat"     // several layers merged into one
)

// NewID returns a new id of that kind, such as snapshot-YYYYMMDD-<uuid>.
func NewID(kind string) string {
	return kind + "-" + time.Now().UTC().Format("20060102") + "-" + uuid.NewString()
}

var idPattern = regexp.MustCompile(`^(snapshot|fork|bld|flat)-[0-9]{8}-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// ValidID reports whether id is a valid id of a layer.
func ValidID(id string) bool { return idPattern.MatchString(id) }

// IsFork reports whether id is a valid id of kind Fork.
func IsFork(id string) bool { return strings.HasPrefix(id, Fork+"-") && ValidID(id) }

// IsBuild reports whether id is a valid id of kind Build.
func IsBuild(id string) bool { return strings.HasPrefix(id, Build+"-") && ValidID(id) }

// Layer describes a saved layer.
type Layer struct {
	ID      string    `json:"id"`
	Parent  string    `json:"parent,omitempty"` // the layer below; "" means the image itself
	Image   string    `json:"image"`            // Image of machine.Spec
	Pinned  string    `json:"pinned,omitempty"` // a name that always means this content, if there is one; Image may later mean other content
	Created time.Time `json:"created"`
	Kept    bool      `json:"kept"`             // true until Delete
	Packed  *Packed   `json:"packed,omitempty"` // set after an export or import
}

// Content returns the name that identifies the image below the layer best.
func (l Layer) Content() string { return cmp.Or(l.Pinned, l.Image) }

// Packed describes a layer as a file.
type Packed struct {
	Digest string `json:"digest"` // digest of the file: sha256:<hex>
	DiffID string `json:"diffId"` // digest of the archive in the file: sha256:<hex>
	Size   int64  `json:"size"`   // size of the file in bytes
}

// A Store holds the layers in one folder. Its methods are safe for concurrent
// use, including by several processes on one folder.
type Store struct {
	dir   string
	trash *trash.Can

	unpacker *unpack.Unpacker

	sizes sync.Map     // sizes by id, cached by [Store.Size]
	step  func(string) // called between the steps of a change, for tests
}

// Open returns the store in dir, and creates the folder if needed. To freeze
// layers, dir must be on the file system of the machines.
func Open(dir string, log *slog.Logger) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("layer store: %w", err)
	}
	for _, name := range []string{"meta", "tree", "claims", "work", "memory", "trash"} {
		// Root only, since the machines' disks contain set-uid programs.
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			return nil, fmt.Errorf("layer store: %w", err)
		}
	}
	return &Store{dir: dir, unpacker: unpack.New(dir), trash: trash.Open(filepath.Join(dir, "trash"), log), step: func(string) {}}, nil
}

// Unpack writes the contents of an archive that [Pack] has made into a folder.
func (s *Store) Unpack(ctx context.Context, archive io.Reader, to string) error {
	return s.unpacker.Saved(ctx, archive, to)
}

// Close waits until deleted layers are fully removed.
func (s *Store) Close() error {
	s.trash.Wait()
	return nil
}

func (s *Store) path(part, name string) string { return filepath.Join(s.dir, part, name) }

func (s *Store) tree(id string) string { return s.path("tree", id) }

func (s *Store) meta(id string) string { return s.path("meta", id+".json") }

// locked calls do while holding the store's lock, which excludes other
// goroutines and processes. do must be quick.
func (s *Store) locked(do func() error) error {
	f, err := os.OpenFile(filepath.Join(s.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := lockfile.Block(f); err != nil {
		return fmt.Errorf("lock layers: %w", err)
	}
	return do()
}

// Layer returns the description of a complete layer. The error is a
// [fault.NotFound] if there is none.
func (s *Store) Layer(id string) (Layer, error) {
	if !ValidID(id) {
		return Layer{}, notFound(id)
	}
	var l Layer
	data, err := os.ReadFile(s.meta(id))
	if err == nil {
		_, err = os.Lstat(s.tree(id))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return Layer{}, notFound(id)
	}
	if err == nil {
		err = json.Unmarshal(data, &l)
	}
	if err != nil {
		return Layer{}, fmt.Errorf("layer %s: %w", id, err)
	}
	return l, nil
}

func notFound(id string) error {
	return fault.NotFound("there is no snapshot or build %q here", id).Named("snapshot_not_found").
		Hint("`aloft snapshot list` shows those that are kept, and `aloft snapshot import` adds others")
}

// List returns the kept layers, oldest first.
func (s *Store) List() ([]Layer, error) {
	all, err := s.all()
	if err != nil {
		return nil, fmt.Errorf("list layers: %w", err)
	}
	kept := slices.DeleteFunc(all, func(l Layer) bool { return !l.Kept })
	slices.SortFunc(kept, func(a, b Layer) int {
		if c := a.Created.Compare(b.Created); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return kept, nil
}

// all returns every complete layer.
func (s *Store) all() ([]Layer, error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, "meta"))
	if err != nil {
		return nil, err
	}
	var out []Layer
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok {
			continue
		}
		l, err := s.Layer(id)
		if f, is := errors.AsType[*fault.Error](err); is && f.Kind == fault.KindNotFound {
			continue // the layer is incomplete, or was removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		out = append(out, l)
	}
	return out, nil
}

// Stack returns the layer and all layers below it, topmost first.
func (s *Store) Stack(id string) ([]Layer, error) {
	var out []Layer
	for at := id; at != ""; {
		l, err := s.Layer(at)
		if err != nil {
			if at != id {
				return nil, fmt.Errorf("%s is based on a missing layer: %w", id, err)
			}
			return nil, err
		}
		if slices.ContainsFunc(out, func(o Layer) bool { return o.ID == l.ID }) {
			return nil, fmt.Errorf("layer %s is its own ancestor", id)
		}
		out, at = append(out, l), l.Parent
	}
	return out, nil
}

// Delete stops keeping a layer. The layer is removed once nothing needs it, so
// machines created from it continue.
func (s *Store) Delete(id string) error {
	err := s.locked(func() error {
		l, err := s.Layer(id)
		if err != nil {
			return err
		}
		if !l.Kept {
			return notFound(id)
		}
		l.Kept = false
		return s.writeMeta(l)
	})
	if err != nil {
		return err
	}
	return s.Collect()
}

func (s *Store) writeMeta(l Layer) error {
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return atomicfile.Write(s.meta(l.ID), data, 0o600)
}

// syncTree flushes the file system that contains path, so that a power failure
// leaves a complete layer or none.
func syncTree(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return &os.PathError{Op: "sync", Path: path, Err: err}
	}
	return nil
}

func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
