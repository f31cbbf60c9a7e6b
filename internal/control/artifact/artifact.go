// Package artifact keeps the files that outlive machines: what an agent put
// into its folder of artifacts is copied out, bounded and with its secrets taken
// out, into a bucket, which is a folder or an object store.
//
// The bucket is the whole truth, so that no crash can make two of it: an agent's
// contents lie under names of their own, and one index, replaced as a whole,
// says which of them are its artifacts. What the index does not name is not
// there, and is overwritten or removed with the agent.
package artifact

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"aloft/internal/fault"
)

// Limits bound what is kept of one agent.
type Limits struct {
	Files    int   // how many
	FileSize int64 // bytes of one
	Size     int64 // bytes of all
}

// DefaultLimits are room for recordings of a screen, and for no disk image.
var DefaultLimits = Limits{Files: 1000, FileSize: 2 << 30, Size: 10 << 30}

// Bounds of a name, in bytes.
const (
	maxName = 512
	maxPart = 255
)

// maxIndex bounds an index, in bytes.
const maxIndex = 8 << 20

// File is an artifact that is kept.
type File struct {
	Name     string    `json:"name"` // with slashes
	Size     int64     `json:"size"` // of what is kept
	Modified time.Time `json:"modified"`
	Seen     string    `json:"seen"` // SHA-256 of what the machine had
	Key      string    `json:"key"`  // of the contents, below the agent's
}

// A Store keeps artifacts. Its methods are safe for concurrent use; of several
// servers only the one that has the lease on an agent may call Collect and
// Remove.
type Store struct {
	bucket *blob.Bucket
	limits Limits

	mu    sync.Mutex
	locks map[string]*lock
}

// lock is held while an agent's index is changed.
type lock struct {
	sync.Mutex

	users int // guarded by Store.mu
}

// Open opens the bucket at a URL: file:///folder, or what the program has linked
// a driver for.
func Open(ctx context.Context, bucketURL string, limits Limits) (*Store, error) {
	bucket, err := blob.OpenBucket(ctx, bucketURL)
	if err != nil {
		return nil, fmt.Errorf("artifacts: %w", err)
	}
	return &Store{bucket: bucket, limits: limits, locks: map[string]*lock{}}, nil
}

// FolderURL is the URL of a bucket that is a folder of this host. It is made
// where it is not there.
func FolderURL(folder string) (string, error) {
	abs, err := filepath.Abs(folder)
	if err != nil {
		return "", err
	}
	// A file is written beside its place, so that it appears whole.
	query := url.Values{"create_dir": {"true"}, "no_tmp_dir": {"true"}, "metadata": {"skip"}, "dir_file_mode": {"0700"}}
	return (&url.URL{Scheme: "file", Path: abs, RawQuery: query.Encode()}).String(), nil
}

// Close lets go of the bucket.
func (s *Store) Close() error { return s.bucket.Close() }

func indexKey(agentID string) string { return agentID + "/index.json" }

// List returns what is kept of an agent, by name. One of which nothing is kept
// has an empty list.
func (s *Store) List(ctx context.Context, agentID string) ([]File, error) {
	r, err := s.bucket.NewReader(ctx, indexKey(agentID), nil)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("artifacts of %s: %w", agentID, err)
	}
	defer func() { _ = r.Close() }()
	var list []File
	if err := json.NewDecoder(io.LimitReader(r, maxIndex)).Decode(&list); err != nil {
		return nil, fmt.Errorf("artifacts of %s: %w", agentID, err)
	}
	return list, nil
}

// Open opens an artifact. The reader can seek.
func (s *Store) Open(ctx context.Context, agentID, name string) (io.ReadSeekCloser, File, error) {
	list, err := s.List(ctx, agentID)
	if err != nil {
		return nil, File{}, err
	}
	at := slices.IndexFunc(list, func(f File) bool { return f.Name == name })
	if at < 0 {
		return nil, File{}, fault.NotFound("the agent has no such artifact").Named("artifact_not_found").At("path").
			Hint("list them: what is larger than may be kept, or no regular file, is not among them")
	}
	r, err := s.bucket.NewReader(ctx, agentID+"/"+list[at].Key, nil)
	if err != nil {
		return nil, File{}, fmt.Errorf("artifact of %s: %w", agentID, err)
	}
	if r.Size() != list[at].Size {
		return nil, File{}, errors.Join(fmt.Errorf("artifact of %s: %d bytes are there, and %d were kept", agentID, r.Size(), list[at].Size), r.Close())
	}
	return r, list[at], nil
}

// Remove removes all that is kept of an agent.
func (s *Store) Remove(ctx context.Context, agentID string) error {
	defer s.lock(agentID)()
	// The index goes first: what is left after a crash is no artifact.
	err := s.bucket.Delete(ctx, indexKey(agentID))
	if err != nil && gcerrors.Code(err) != gcerrors.NotFound {
		return fmt.Errorf("remove artifacts of %s: %w", agentID, err)
	}
	objects := s.bucket.List(&blob.ListOptions{Prefix: agentID + "/"})
	for {
		object, err := objects.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = s.bucket.Delete(ctx, object.Key)
		}
		if err != nil && gcerrors.Code(err) != gcerrors.NotFound {
			return fmt.Errorf("remove artifacts of %s: %w", agentID, err)
		}
	}
}

// lock waits for the right to change what is kept of an agent.
func (s *Store) lock(agentID string) (unlock func()) {
	s.mu.Lock()
	l := s.locks[agentID]
	if l == nil {
		l = &lock{}
		s.locks[agentID] = l
	}
	l.users++
	s.mu.Unlock()
	l.Lock()
	return func() {
		l.Unlock()
		s.mu.Lock()
		defer s.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(s.locks, agentID)
		}
	}
}

// checkName says what is wrong with a name that a machine gave to a file.
func checkName(name string) error {
	switch {
	case len(name) > maxName:
		return fmt.Errorf("its name is longer than %d bytes", maxName)
	case !fs.ValidPath(name), name == ".", !utf8.ValidString(name), strings.ContainsRune(name, '\\'):
		return errors.New("its name is no path below the folder of artifacts")
	case strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }):
		return errors.New("its name holds characters that nobody sees")
	}
	for dir := name; dir != "."; dir = path.Dir(dir) {
		if len(path.Base(dir)) > maxPart {
			return fmt.Errorf("a part of its name is longer than %d bytes", maxPart)
		}
	}
	return nil
}
