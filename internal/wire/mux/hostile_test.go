package mux

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"testing"
	"time"
)

// rawFrame returns a yamux frame with a body.
func rawFrame(kind byte, flags uint16, stream uint32, length int, body []byte) []byte {
	b := make([]byte, frameSize, frameSize+len(body))
	b[1] = kind
	binary.BigEndian.PutUint16(b[2:], flags)
	binary.BigEndian.PutUint32(b[4:], stream)
	binary.BigEndian.PutUint32(b[8:], uint32(length)) //nolint:gosec // a test's
	return append(b, body...)
}

// heap returns the size of all live objects in bytes.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestHostilePeerHoldsNoMoreThanTheBudget has a peer flood a connection with
// raw frames in every possible way. The test measures how much memory this end
// holds when the connection ends.
func TestHostilePeerHoldsNoMoreThanTheBudget(t *testing.T) { // not parallel: it measures the heap
	const window = 256 << 10 // the initial window of a stream
	data := make([]byte, window)
	git := append([]byte("\x03git"), data[:window-4]...)
	for _, tt := range []struct {
		name   string
		closes bool // the handler closes each stream immediately, instead of keeping it open
		deaf   bool // the peer does not read
		frames func(n uint32) []byte
	}{
		{"streams that are kept open", false, false, func(n uint32) []byte { return rawFrame(kindData, flagSYN, 2*n, window, git) }},
		{"streams that are closed here", true, false, func(n uint32) []byte { return rawFrame(kindData, flagSYN, 2*n, window, git) }},
		{"streams without a name", true, false, func(n uint32) []byte { return rawFrame(kindData, flagSYN, 2*n, window, data) }},
		{"streams that say nothing", true, false, func(n uint32) []byte { return rawFrame(kindWindow, flagSYN, 2*n, 0, nil) }},
		{"streams that end and are kept", false, false, func(n uint32) []byte { return rawFrame(kindData, flagSYN|flagFIN, 2*n, window, git) }},
		{"streams with an odd number", true, false, func(n uint32) []byte { return rawFrame(kindData, flagSYN, 2*n+1, window, git) }},
		{"one stream again and again", true, false, func(uint32) []byte { return rawFrame(kindData, flagSYN, 2, 1<<10, git[:1<<10]) }},
		{"pings whose answers are not read", true, true, func(n uint32) []byte { return rawFrame(kindPing, flagSYN, 0, int(n), nil) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			before := heap()
			c, err := Client(ours)
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan error, 1)
			go func() {
				served <- c.Serve(func(_ string, stream net.Conn) {
					if tt.closes {
						_ = stream.Close()
						return
					}
					<-c.Done()
				})
			}()
			if !tt.deaf {
				go func() { _, _ = io.Copy(io.Discard, theirs) }() // ends with the connection
			}
			for n := uint32(1); n < 1<<16; n++ { // 16 GiB unless this end stops it
				if _, err := theirs.Write(tt.frames(n)); err != nil {
					break
				}
			}
			select {
			case err = <-served:
			case <-time.After(time.Minute):
				t.Fatal("the connection goes on")
			}
			if !errors.Is(err, ErrExceeded) || !errors.Is(c.Exceeded(), ErrExceeded) {
				t.Errorf("it ended with %v, and %v; want %v", err, c.Exceeded(), ErrExceeded)
			}
			// Buffers grow by doubling, so they may be twice as large as their contents.
			if held := int64(heap()) - int64(before); held > 2*maxHeld+16<<20 { //nolint:gosec // both are small
				t.Errorf("this end held %d MiB", held>>20)
			}
			if _, err := c.Open(t.Context(), Exec); !errors.Is(err, ErrExceeded) {
				t.Errorf("a stream was opened: %v", err)
			}
			_ = c.Close()
			_ = theirs.Close()
		})
	}
}

// TestStreamsThatEndCostNothing opens streams one after another, more than may
// be open at the same time and with more data than may be held. It abandons
// half of them.
func TestStreamsThatEndCostNothing(t *testing.T) {
	t.Parallel()
	client, server := pair(t)
	closed := make(chan struct{})
	go func() {
		_ = client.Serve(func(_ string, stream net.Conn) {
			_, _ = io.CopyN(io.Discard, stream, 50<<10)
			_ = stream.Close()
			closed <- struct{}{}
		})
	}()
	payload := make([]byte, 100<<10)
	for range 2 * maxStreams {
		s, err := server.Open(t.Context(), Git)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Write(payload); err != nil {
			t.Fatal(err)
		}
		_ = s.Close()
		if _, err := io.Copy(io.Discard, s); err != nil {
			t.Fatal(err)
		}
		<-closed
	}
	client.meter.mu.Lock()
	defer client.meter.mu.Unlock()
	if m := client.meter; m.held != 0 || m.foreign != 0 || len(m.streams) != 0 {
		t.Errorf("%d bytes of %d streams (%d of the peer) are counted after all have ended", m.held, len(m.streams), m.foreign)
	}
}

// TestResetStreamsAreForgotten has a peer open, fill and reset streams
// endlessly. The connection must keep none of them.
func TestResetStreamsAreForgotten(t *testing.T) { // not parallel: it measures the heap
	ours, theirs := net.Pipe()
	c, err := Client(ours)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(); _ = theirs.Close() })
	go func() { _ = c.Serve(func(_ string, stream net.Conn) { _ = stream.Close() }) }()
	go func() { _, _ = io.Copy(io.Discard, theirs) }()
	git := append([]byte("\x03git"), make([]byte, 64<<10-4)...)
	before := heap()
	for n := range uint32(20_000) { // 1.2 GiB
		frames := append(rawFrame(kindData, flagSYN, 2*n+2, len(git), git), rawFrame(kindWindow, flagRST, 2*n+2, 0, nil)...)
		if _, err := theirs.Write(frames); err != nil {
			break // the peer may send faster than this end accepts streams
		}
	}
	if held := int64(heap()) - int64(before); held > 2*maxHeld+16<<20 { //nolint:gosec // both are small
		t.Errorf("this end holds %d MiB", held>>20)
	}
}

// TestDedicatedHoldsOneWindow has a peer send what it can over a connection for
// one stream, and open streams of its own.
func TestDedicatedHoldsOneWindow(t *testing.T) {
	t.Parallel()
	a, b := net.Pipe()
	c, err := Dedicated(a)
	if err != nil {
		t.Fatal(err)
	}
	peer, err := Server(b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(); _ = peer.Close() })
	wrote := make(chan int, 1)
	go func() {
		_ = peer.Serve(func(_ string, s net.Conn) {
			_ = s.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
			n, _ := s.Write(make([]byte, 4<<20))
			wrote <- n
		})
	}()
	s, err := c.Open(t.Context(), Port(80))
	if err != nil {
		t.Fatal(err)
	}
	if n := <-wrote; n > 256<<10 {
		t.Errorf("this end took %d KiB that nobody read", n>>10)
	}
	if _, err := io.CopyN(io.Discard, s, 100<<10); err != nil {
		t.Fatal(err)
	}
	_, _ = peer.Open(t.Context(), Git) // it may fail already, because the connection ends
	<-c.Done()
	if !errors.Is(c.Exceeded(), ErrExceeded) {
		t.Errorf("the connection ended with %v, want %v", c.Exceeded(), ErrExceeded)
	}
}
