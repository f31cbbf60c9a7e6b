package terminal

import (
	"context"
	"io"
	"sync"
	"unicode/utf8"
)

// ring keeps the last bytes that were written to it. Offsets count from the
// very first byte. Its methods are safe for concurrent use; Write never blocks.
type ring struct {
	mu     sync.Mutex
	buf    []byte // grows up to max, then wraps
	max    int
	end    int64 // offset of the next byte
	closed bool
	more   chan struct{} // closed when something is written; nil if nobody waits
}

func newRing(most int) *ring { return &ring{max: most} }

// Write implements [io.Writer]. It never fails.
func (r *ring) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(b)
	r.end += int64(n)
	if len(b) > r.max {
		b = b[len(b)-r.max:]
	}
	if room := r.max - len(r.buf); room > 0 {
		first := b[:min(room, len(b))]
		r.buf = append(r.buf, first...)
		b = b[len(first):]
	}
	// Overwrite the oldest bytes, so that b ends at offset end.
	at := int((r.end - int64(len(b))) % int64(r.max))
	for len(b) > 0 {
		k := copy(r.buf[at:], b)
		b, at = b[k:], 0
	}
	r.tell()
	return n, nil
}

// close says that nothing more will be written.
func (r *ring) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.tell()
}

func (r *ring) tell() {
	if r.more != nil {
		close(r.more)
		r.more = nil
	}
}

// offsets returns the offsets of the oldest kept byte and of the next byte.
func (r *ring) offsets() (start, end int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.end - int64(len(r.buf)), r.end
}

// read reads into b, starting at offset from, and blocks until there is some output. at
// is the offset of b's first byte; it is greater than from if the bytes in between are
// no longer kept. The error is io.EOF after the last byte, or ctx's error.
func (r *ring) read(ctx context.Context, from int64, b []byte) (n int, at int64, err error) {
	for {
		r.mu.Lock()
		at = max(from, r.end-int64(len(r.buf)))
		if at < r.end {
			n = r.copyOut(b, at)
			r.mu.Unlock()
			if at > from {
				// Skip the rest of a character whose beginning is no longer
				// kept.
				skip := 0
				for skip < min(n, utf8.UTFMax-1) && !utf8.RuneStart(b[skip]) {
					skip++
				}
				n, at = copy(b, b[skip:n]), at+int64(skip)
			}
			return n, at, nil
		}
		if r.closed {
			r.mu.Unlock()
			return 0, at, io.EOF
		}
		if r.more == nil {
			r.more = make(chan struct{})
		}
		more := r.more
		r.mu.Unlock()
		select {
		case <-more:
		case <-ctx.Done():
			return 0, at, context.Cause(ctx)
		}
	}
}

// copyOut copies bytes starting at offset at. r.mu must be held.
func (r *ring) copyOut(b []byte, at int64) int {
	want := min(len(b), int(r.end-at))
	i := int(at % int64(r.max))
	n := copy(b[:want], r.buf[i:])
	return n + copy(b[n:want], r.buf)
}
