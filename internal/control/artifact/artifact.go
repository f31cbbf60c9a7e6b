// Package artifact stores files that outlive machines. It copies the files in
// an agent's artifacts folder to a bucket, which is a folder or an object
// store, with limits and with secrets redacted.
//
// All state is in the bucket, so a crash cannot leave inconsistent copies. An
// agent's contents have unique names, and a single index, which is replaced
// atomically, says which of them are artifacts. Contents that the index does
// not name are overwritten or removed with the agent.
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
	"time"
	"unicode"
	"unicode/utf8"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"aloft/internal/control/bucket"
	"aloft/internal/control/keylock"
	"aloft/internal/fault"
	"aloft/internal/text"
)

// Limits are the limits for one agent.
type Limits struct {
	Files    int   // number of files
	FileSize int64 // bytes per file
	Size     int64 // bytes in total
}

// DefaultLimits suffices for screen recordings, but not for disk images.
var DefaultLimits = Limits{Files: 1000, FileSize: 2 << 30, Size: 10 << 30}

// Limits of a file name, in bytes.
const (
	maxName = 512
	maxPart = 255
)

// Limits of an index. 1,000 artifacts with long names have less than 2 MiB.
const (
	maxIndex  = 8 << 20 // bytes
	maxValues = 50_000  // JSON values
)

// removeWithin is the timeout for removing the artifacts of an agent. A store could
// list objects without end.
const removeWithin = 15 * time.Minute

// File is a stored artifact.
type File struct {
	Name     string    `json:"name"` // relative path with slashes
	Size     int64     `json:"size"` // size of the stored contents
	Modified time.Time `json:"modified"`
	Seen     string    `json:"seen"` // SHA-256 of the original file in the machine
	Key      string    `json:"key"`  // key of the contents, below the agent's prefix
}

// A Store stores artifacts. Its methods are safe for concurrent use. If there
// are several servers, only the server that holds the lease on an agent may
// call Collect and Remove.
type Store struct {
	bucket *blob.Bucket
	limits Limits

	changing keylock.Locks[string] // by agent id, held while an agent's index changes
}

// Open opens the bucket at a URL; see [bucket.Open].
func Open(ctx context.Context, bucketURL string, limits Limits) (*Store, error) {
	opened, err := bucket.Open(ctx, bucketURL)
	if err != nil {
		return nil, fmt.Errorf("artifacts: %w", err)
	}
	return &Store{bucket: opened, limits: limits}, nil
}

// FolderURL returns the URL for a bucket in a folder of this host, and creates
// the folder if necessary.
func FolderURL(folder string) (string, error) {
	abs, err := filepath.Abs(folder)
	if err != nil {
		return "", err
	}
	// Temporary files are in the same folder, so that files appear atomically.
	query := url.Values{"create_dir": {"true"}, "no_tmp_dir": {"true"}, "metadata": {"skip"}, "dir_file_mode": {"0700"}}
	return (&url.URL{Scheme: "file", Path: abs, RawQuery: query.Encode()}).String(), nil
}

// Close closes the bucket.
func (s *Store) Close() error { return s.bucket.Close() }

func indexKey(agentID string) string { return agentID + "/index.json" }

// List returns an agent's artifacts, sorted by name.
func (s *Store) List(ctx context.Context, agentID string) ([]File, error) {
	r, err := s.bucket.NewReader(ctx, indexKey(agentID), nil)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("artifacts of %s: %w", agentID, err)
	}
	defer func() { _ = r.Close() }()
	data, err := io.ReadAll(io.LimitReader(r, maxIndex+1))
	if err == nil && !new(text.Meter).Count(data, maxIndex, maxValues) {
		err = fmt.Errorf("the index has more than %d MiB or %d values", maxIndex>>20, maxValues)
	}
	var list []File
	if err == nil {
		err = json.Unmarshal(data, &list)
	}
	if err != nil {
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
			Hint("list them: files above the size limit and special files are not stored")
	}
	r, err := s.bucket.NewReader(ctx, agentID+"/"+list[at].Key, nil)
	if err != nil {
		return nil, File{}, fmt.Errorf("artifact of %s: %w", agentID, err)
	}
	if r.Size() != list[at].Size {
		return nil, File{}, errors.Join(fmt.Errorf("artifact of %s: %d bytes found, %d were stored", agentID, r.Size(), list[at].Size), r.Close())
	}
	return r, list[at], nil
}

// Remove removes all artifacts of an agent.
func (s *Store) Remove(ctx context.Context, agentID string) error {
	unlock, err := s.changing.Lock(ctx, agentID)
	if err != nil {
		return err
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(ctx, removeWithin)
	defer cancel()
	// Delete the index first. If the server crashes afterwards, the remaining
	// files are not artifacts.
	err = s.bucket.Delete(ctx, indexKey(agentID))
	if err != nil && gcerrors.Code(err) != gcerrors.NotFound {
		return fmt.Errorf("remove artifacts of %s: %w", agentID, err)
	}
	objects := s.bucket.List(&blob.ListOptions{Prefix: agentID + "/"})
	for {
		object, err := bucket.Next(ctx, objects)
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

// checkName returns an error if a file name from a machine is not acceptable.
func checkName(name string) error {
	switch {
	case len(name) > maxName:
		return fmt.Errorf("its name is longer than %d bytes", maxName)
	case !fs.ValidPath(name), name == ".", !utf8.ValidString(name), strings.ContainsRune(name, '\\'):
		return errors.New("its name is not a path inside the artifacts folder")
	case strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }):
		return errors.New("its name contains invisible characters")
	}
	for dir := name; dir != "."; dir = path.Dir(dir) {
		if len(path.Base(dir)) > maxPart {
			return fmt.Errorf("a part of its name is longer than %d bytes", maxPart)
		}
	}
	return nil
}
