package tool

import (
	"crypto/sha256"
	"fmt"
	"io"
	"path/filepath"
	"sync"
)

// maxSeen bounds the files that are remembered.
const maxSeen = 10_000

// Seen remembers, for each file that the model has read or written, what was
// in it, so that it cannot change what it does not know. The contents tell, not
// the time: a file that was touched is the same file. A nil Seen remembers
// nothing. Its methods are safe for concurrent use.
type Seen struct {
	mu    sync.Mutex
	files map[string][sha256.Size]byte
}

// NewSeen returns a Seen that remembers nothing yet. There is one for each
// conversation.
func NewSeen() *Seen { return &Seen{files: map[string][sha256.Size]byte{}} }

// remember takes note of what the model knows to be in a file, whose path has no
// symbolic link.
func (s *Seen) remember(path string, contents []byte) { s.note(path, sha256.Sum256(contents)) }

func (s *Seen) note(path string, sum [sha256.Size]byte) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.files[path]; !known && len(s.files) >= maxSeen {
		for other := range s.files { // any: it is then as one that was never read
			delete(s.files, other)
			break
		}
	}
	s.files[path] = sum
}

// rememberFile does the same for a file of a size that can be edited.
func (s *Seen) rememberFile(path string, file io.ReaderAt, size int64) {
	if s == nil || size > maxEditBytes {
		return
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return // it has gone since
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, io.NewSectionReader(file, 0, maxEditBytes+1)); err == nil {
		s.note(real, [sha256.Size]byte(hash.Sum(nil)))
	}
}

func (s *Seen) forget(path string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.files, path)
}

// check refuses a file that holds something else than when the model last read
// or wrote it. A file that it never did passes.
func (s *Seen) check(path string, contents []byte) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	sum, known := s.files[path]
	s.mu.Unlock()
	if known && sum != sha256.Sum256(contents) {
		return fmt.Errorf("%s has changed since you read it, by a command or somebody else; nothing was done: Read it again, then edit it", path)
	}
	return nil
}
