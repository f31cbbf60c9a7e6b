package machinerpc

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
)

// prefixSize is the length, in bytes, of the prefix of each message in a
// Connect stream: a byte of flags, and the length of the message.
const prefixSize = 5

// messages is the body of a stream. It joins each message's prefix and content
// in one Read, if they fit. Connect writes the two separately, and HTTP/2 would
// make a frame of each: twice the writes and wake-ups.
type messages struct {
	body io.ReadCloser
	left int64 // bytes left of the current message
}

// Read implements [io.Reader].
func (m *messages) Read(p []byte) (n int, err error) {
	if m.left == 0 && len(p) < prefixSize {
		m.left = math.MaxInt64 // p is too small for a prefix: forward all remaining bytes unchanged
	}
	if m.left > 0 {
		n, err = m.body.Read(p[:min(int64(len(p)), m.left)])
		m.left -= int64(n)
		return n, err
	}
	if n, err = io.ReadFull(m.body, p[:prefixSize]); err != nil {
		return n, ended(err)
	}
	m.left = int64(binary.BigEndian.Uint32(p[1:prefixSize]))
	more, err := io.ReadFull(m.body, p[n:min(int64(len(p)), int64(n)+m.left)])
	m.left -= int64(more)
	return n + more, ended(err)
}

// ended turns io.ErrUnexpectedEOF into io.EOF: the end of a body is no error,
// even if fewer bytes than requested have arrived.
func ended(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return io.EOF
	}
	return err
}

// Close implements [io.Closer].
func (m *messages) Close() error { return m.body.Close() }
