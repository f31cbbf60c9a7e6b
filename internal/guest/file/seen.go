package file

import (
	"crypto/sha256"
	"fmt"
	"io"
	"path/filepath"
	"sync"
)

// maxSeen limits the number of remembered files.
const maxSeen = 10_000

// Seen remembers a hash of each file that the model has read or written, so
// that the model cannot overwrite changes it has not seen. It compares contents
// rather than times, because touching a file does not change it. A nil Seen
// remembers nothing. Its methods are safe for concurrent use.
type Seen struct {
	mu    sync.Mutex
	files map[string][sha256.Size]byte
}

// NewSeen returns an empty Seen. Each conversation has its own.
func NewSeen() *Seen { return &Seen{files: map[string][sha256.Size]byte{}} }

// Remember records the contents of a file that the model has seen. The path
// must have no symbolic links.
func (s *Seen) Remember(path string, contents []byte) { s.note(path, sha256.Sum256(contents)) }

func (s *Seen) note(path string, sum [sha256.Size]byte) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.files[path]; !known && len(s.files) >= maxSeen {
		for other := range s.files { // evict any file; it counts as never read
			delete(s.files, other)
			break
		}
	}
	s.files[path] = sum
}

// RememberFile is like Remember, for a file on disk. It ignores a file that is
// too large to be edited.
func (s *Seen) RememberFile(path string, file io.ReaderAt, size int64) {
	if s == nil || size > MaxBytes {
		return
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return // the file was removed meanwhile
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, io.NewSectionReader(file, 0, MaxBytes+1)); err == nil {
		s.note(real, [sha256.Size]byte(hash.Sum(nil)))
	}
}

// Forget drops a file.
func (s *Seen) Forget(path string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.files, path)
}

// Check returns an error if a file's contents differ from what the model last
// read or wrote. Files that the model has never seen pass.
func (s *Seen) Check(path string, contents []byte) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	sum, known := s.files[path]
	s.mu.Unlock()
	if known && sum != sha256.Sum256(contents) {
		return fmt.Errorf("%s was changed since you last read it, by a command or somebody else; nothing was written: Read it again, then edit it", path)
	}
	return nil
}
