package egress

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
)

// Buffer sizes of one direction in bytes. A connection starts with a small
// buffer, and gets a large one once it fills the small one.
const (
	smallCopy = 8 << 10
	largeCopy = 512 << 10
)

var largeBuffers = sync.Pool{New: func() any { b := make([]byte, largeCopy); return &b }}

// copyCounted copies until src ends; the end of src is not an error. While it
// copies, it adds the bytes written to count.
func copyCounted(dst io.Writer, src io.Reader, count *atomic.Int64) error {
	buf := make([]byte, smallCopy)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			w, werr := dst.Write(buf[:n])
			count.Add(int64(w))
			if werr != nil {
				return werr
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if n == smallCopy && len(buf) == smallCopy {
			large := largeBuffers.Get().(*[]byte)
			defer largeBuffers.Put(large)
			buf = *large
		}
	}
}
