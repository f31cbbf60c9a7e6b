package mux

import (
	"io"
	"net"
	"time"
)

// Join copies between two connections, both ways, until both have ended, and
// closes them. The end of one direction is passed on as such, so that a peer
// that has said everything still hears the answer.
func Join(a, b net.Conn) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		oneWay(a, b)
	}()
	oneWay(b, a)
	<-done
	_ = a.Close()
	_ = b.Close()
}

func oneWay(dst, src net.Conn) {
	_, err := io.Copy(dst, src)
	if err != nil {
		// One side is broken: what the other still says reaches nobody. Closing
		// a stream does not end a Read of it; a deadline does.
		_ = src.SetDeadline(time.Unix(1, 0))
		_ = dst.SetDeadline(time.Unix(1, 0))
		return
	}
	if half, ok := dst.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
		return
	}
	// Close of a stream ends its writing only.
	_ = dst.Close()
}
