package mux

import (
	"io"
	"net"
	"time"
)

// Join copies between two connections in both directions until both directions have
// ended, and closes the connections. It forwards the end of each direction separately,
// so that a peer that has finished sending still receives the response.
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
		// One direction failed, so data of the other direction has no receiver.
		// Closing a stream does not interrupt a pending Read, so set a
		// deadline.
		_ = src.SetDeadline(time.Unix(1, 0))
		_ = dst.SetDeadline(time.Unix(1, 0))
		return
	}
	if half, ok := dst.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
		return
	}
	// Close of a stream ends only writing.
	_ = dst.Close()
}
