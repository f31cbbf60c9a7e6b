package image

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"aloft/internal/fault"
)

// Limits of unpacking an image.
const (
	// entryBytes is the disk usage charged per file in addition to its content,
	// for its inode and name.
	entryBytes = 512
	// maxRatio is how many bytes one byte of a layer may unpack to, once
	// freeRatio bytes have been unpacked. Layers of programs and texts stay below
	// 20.
	maxRatio  = 100
	freeRatio = 128 << 20
	// roomEvery is how many bytes are unpacked between two checks of the free
	// disk space.
	roomEvery = 16 << 20
)

// A budget limits the unpacked size of all layers of one image. It is safe for
// concurrent use.
type budget struct {
	most int64        // bytes; 0 means no limit
	room func() error // returns an error if the disk is too full; may be nil

	mu   sync.Mutex
	used int64
	next int64 // value of used at which room is called next
}

// take counts n bytes before they are written. It fails if they exceed the
// budget or the disk is too full. take(0) always checks the disk.
func (b *budget) take(n int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used += n
	if b.most > 0 && b.used > b.most {
		return fault.Exhausted("the image unpacks to more than %d MiB", b.most>>20).Named("image_too_large").
			Hint("use a smaller image, or raise machine.disk_bytes")
	}
	if b.room == nil || n > 0 && b.used < b.next {
		return nil
	}
	b.next = b.used + roomEvery
	return b.room()
}

// newBudget returns the budget for one image.
func (s *Store) newBudget() *budget {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &budget{most: s.opts.MaxBytes, room: s.room}
}

// SetRoom sets a function that the store calls before and while it unpacks an
// image. The function returns an error if the disk is too full.
func (s *Store) SetRoom(room func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.room = room
}

// A counter counts the bytes read through it. Its count can be read at any time.
type counter struct {
	r io.Reader
	n atomic.Int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// A meteredReader limits the unpacked bytes of one layer, both to the image's
// budget and in relation to the packed bytes.
type meteredReader struct {
	r      io.Reader
	packed *counter
	budget *budget
	n      int64
}

func (m *meteredReader) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	m.n += int64(n)
	if m.n > freeRatio && m.n/maxRatio > m.packed.n.Load() {
		return 0, fault.Exhausted("a layer of the image unpacks to more than %d times its size", maxRatio).Named("image_too_large").
			Hint("it looks like a decompression bomb: build the image without long runs of equal bytes")
	}
	if takeErr := m.budget.take(int64(n)); takeErr != nil {
		return 0, fmt.Errorf("unpack: %w", takeErr)
	}
	return n, err
}
