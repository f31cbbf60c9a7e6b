// Package layer keeps what machines have written: directories in the form of
// an overlay's upper layer, each of which stands on an image, or on another
// layer that does. A layer never changes once it is saved. Saving one is a
// rename, once what was written is on the disk, and starting from one is a mount:
// neither costs anything per file.
//
// A layer is named by an id and not by its content, since to digest 50,000
// files takes longer than to save them. What is exported is named by content.
//
// A layer stays as long as somebody needs it: a person who keeps it (a
// snapshot, an environment's active build), a machine or a copy under way that
// claims it, or another layer that stands on it. All that is on disk, in one
// folder, and every change is one rename, so whoever is killed at whatever
// moment leaves a store in which each layer is whole or not there:
//
//	meta/ID.json   what a layer is; there before its tree
//	tree/ID        its files
//	claims/NAME    who needs which layers, and for how long
//	work           what is being made
//	trash          what is being removed
package layer

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
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
	"aloft/internal/control/trash"
	"aloft/internal/fault"
)

// The kinds of layers, with which their ids begin.
const (
	Snapshot = "snapshot" // saved by a person, or to start others from
	Fork     = "fork"     // kept until those that were forked from it have begun
	Build    = "bld"      // an environment made ready
	flat     = "flat"     // several layers merged into one
)

// NewID returns a fresh id of that kind: snapshot-YYYYMMDD-<uuid>.
func NewID(kind string) string {
	return kind + "-" + time.Now().UTC().Format("20060102") + "-" + uuid.NewString()
}

var idPattern = regexp.MustCompile(`^(snapshot|fork|bld|flat)-[0-9]{8}-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// ValidID reports whether a layer may have this id.
func ValidID(id string) bool { return idPattern.MatchString(id) }

// IsFork reports whether a layer of this id is of that kind.
func IsFork(id string) bool { return strings.HasPrefix(id, Fork+"-") && ValidID(id) }

// Layer is what is known of a layer.
type Layer struct {
	ID      string    `json:"id"`
	Parent  string    `json:"parent,omitempty"` // the layer below; "" is the image itself
	Image   string    `json:"image"`            // as machine.Spec names it
	Pinned  string    `json:"pinned,omitempty"` // a name of that image's very content, where it has one: Image may come to mean another
	Created time.Time `json:"created"`
	Kept    bool      `json:"kept"`             // until Delete
	Packed  *Packed   `json:"packed,omitempty"` // once it was exported or imported
}

// Content names the image that the layer stands on, and no other.
func (l Layer) Content() string { return cmp.Or(l.Pinned, l.Image) }

// Packed is a layer as a file.
type Packed struct {
	Digest string `json:"digest"` // sha256:<hex> of the file
	DiffID string `json:"diffId"` // sha256:<hex> of the archive in it
	Size   int64  `json:"size"`   // of the file, in bytes
}

// A Store is the layers in one folder. Its methods are safe for concurrent use,
// also by several processes on one folder.
type Store struct {
	dir   string
	trash *trash.Can
	sizes sync.Map     // of layers, by id, as [Store.Size] has counted them
	step  func(string) // between the steps of a change, for tests
}

// Open returns the store in dir, which it makes if it is not there. Where
// layers are to be frozen, dir is on the file system of the machines.
func Open(dir string, log *slog.Logger) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("layer store: %w", err)
	}
	for _, name := range []string{"meta", "tree", "claims", "work", "memory", "trash"} {
		// Closed to everybody else: below lie set-uid programs of the machines.
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			return nil, fmt.Errorf("layer store: %w", err)
		}
	}
	return &Store{dir: dir, trash: trash.Open(filepath.Join(dir, "trash"), log), step: func(string) {}}, nil
}

// Close waits until what was given up is removed.
func (s *Store) Close() error {
	s.trash.Wait()
	return nil
}

func (s *Store) path(part, name string) string { return filepath.Join(s.dir, part, name) }

func (s *Store) tree(id string) string { return s.path("tree", id) }

func (s *Store) meta(id string) string { return s.path("meta", id+".json") }

// locked does something that no other does meanwhile, in this process or
// another. It has to be short.
func (s *Store) locked(do func() error) error {
	f, err := os.OpenFile(filepath.Join(s.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if err == nil {
			return do()
		}
		if !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("lock layers: %w", err)
		}
	}
}

// Layer returns what is known of a layer that is whole. The error is a
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
		Hint("`aloft snapshot list` shows those that are kept, and `aloft snapshot import` brings others")
}

// List returns the layers that are kept, the oldest first.
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

// all reads every layer that is whole.
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
			continue // half made, or gone meanwhile
		}
		if err != nil {
			return nil, err
		}
		out = append(out, l)
	}
	return out, nil
}

// Stack returns the layer and those that it stands on, topmost first.
func (s *Store) Stack(id string) ([]Layer, error) {
	var out []Layer
	for at := id; at != ""; {
		l, err := s.Layer(at)
		if err != nil {
			if at != id {
				return nil, fmt.Errorf("%s stands on a layer that is missing: %w", id, err)
			}
			return nil, err
		}
		if slices.ContainsFunc(out, func(o Layer) bool { return o.ID == l.ID }) {
			return nil, fmt.Errorf("layer %s stands on itself", id)
		}
		out, at = append(out, l), l.Parent
	}
	return out, nil
}

// Delete gives up a layer that is kept. It goes when nothing needs it any more:
// machines that were made from it go on.
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

// syncTree returns when all that was written below path is on the disk, with
// whatever else its file system had to write. So a power cut leaves a layer
// whole, or none.
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
