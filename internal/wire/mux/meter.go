package mux

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/hashicorp/yamux"
)

// ErrExceeded is wrapped by the error of a connection that was closed because
// the peer exceeded a limit.
var ErrExceeded = errors.New("the peer exceeded a limit of the connection")

// The limits of a connection. A peer that exceeds them is malicious or broken:
// a correct peer stays far below. Flow control does not limit the total, since
// every stream has its own window.
const (
	maxStreams = 1024     // streams opened by the peer and not ended at both ends
	maxHeld    = 64 << 20 // unread bytes from the peer
	maxPings   = 64       // unanswered pings of the peer
)

// idleBuffer is the largest buffer, in bytes, that a stream keeps while it has
// no unread data.
const idleBuffer = 64 << 10

// meter is the raw connection under a session. It parses the frames in both directions
// and tracks how much memory the peer makes this process use. If a frame would exceed a
// limit, the meter fails the read before the session sees the frame.
type meter struct {
	net.Conn
	parity  uint32 // of the ids of streams that this end opens: 0 or 1
	passive bool   // the peer may not open streams
	in, out frames
	unsent  []byte // header of a data frame, to be written with the frame's body

	mu       sync.Mutex
	streams  map[uint32]*holding // streams not ended at both ends
	foreign  int                 // number of streams opened by the peer
	held     int
	pings    int
	exceeded error // why the connection was closed; nil otherwise
}

// holding counts the buffered bytes of one stream.
type holding struct {
	id       uint32
	foreign  bool // the peer opened the stream
	bytes    int  // bytes received and not yet read
	peak     int  // largest number of bytes since the buffer was last empty
	peerDone bool // the peer has sent its FIN or a RST
	weDone   bool // this end has closed the stream
	gone     bool // no longer counted
}

func newMeter(conn net.Conn, parity uint32) *meter {
	return &meter{Conn: conn, parity: parity, streams: map[uint32]*holding{}}
}

// Read reads from the peer and counts the bytes.
func (m *meter) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	if over := m.in.scan(p[:n], m.received); over != nil {
		return 0, over
	}
	return n, err
}

// Write counts and sends bytes. The session writes the header of a data frame
// and then its body; Write combines a short body with its header in one write,
// so that the peer is woken once. Only the session's single writer goroutine
// calls it.
func (m *meter) Write(p []byte) (int, error) {
	_ = m.out.scan(p, m.sent) // sent never returns an error
	if len(m.unsent) == 0 && len(p) == frameSize && m.out.have == 0 && m.out.body > 0 {
		m.unsent = append(m.unsent, p...)
		return len(p), nil
	}
	if len(m.unsent) == 0 {
		return m.Conn.Write(p)
	}
	both := m.unsent
	m.unsent = m.unsent[:0]
	if len(p) <= maxJoined {
		n, err := m.Conn.Write(append(both, p...))
		return max(n-frameSize, 0), err
	}
	if _, err := m.Conn.Write(both); err != nil {
		return 0, err
	}
	return m.Conn.Write(p)
}

// maxJoined is the longest body, in bytes, that Write copies behind its header
// to send both at once.
const maxJoined = 16 << 10

// received counts a frame from the peer.
func (m *meter) received(f frame) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch f.kind {
	case kindPing:
		if f.flags&flagSYN == 0 {
			return nil
		}
		if m.pings++; m.pings > maxPings {
			return m.exceed("%d pings are unanswered", maxPings)
		}
		return nil
	case kindData, kindWindow:
	default:
		return nil
	}
	h := m.streams[f.stream]
	if f.flags&flagSYN != 0 {
		if h != nil || f.stream%2 == m.parity {
			return m.exceed("stream %d is not free to open", f.stream)
		}
		if m.passive {
			return m.exceed("the peer may open no stream")
		}
		if m.foreign >= maxStreams {
			return m.exceed("%d streams are open", maxStreams)
		}
		m.foreign++
		h = &holding{id: f.stream, foreign: true}
		m.streams[f.stream] = h
	}
	if h == nil {
		return nil // the session discards the frame
	}
	if f.kind == kindData {
		h.bytes += int(f.length)
		h.peak = max(h.peak, h.bytes)
		if m.held += int(f.length); m.held > maxHeld {
			return m.exceed("%d MiB are unread", maxHeld>>20)
		}
	}
	if f.flags&(flagFIN|flagRST) != 0 {
		h.peerDone = true
		m.release(h)
	}
	return nil
}

// exceed records that a limit was exceeded. m.mu must be held.
func (m *meter) exceed(format string, args ...any) error {
	m.exceeded = fmt.Errorf("%w: "+format, append([]any{ErrExceeded}, args...)...)
	return m.exceeded
}

// sent counts a frame that this peer sends.
func (m *meter) sent(f frame) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case f.kind == kindPing && f.flags&flagACK != 0:
		m.pings--
	case f.kind != kindData && f.kind != kindWindow:
	case f.flags&flagSYN != 0:
		m.streams[f.stream] = &holding{id: f.stream}
	case f.flags&flagRST != 0: // the session has forgotten the stream
		if h := m.streams[f.stream]; h != nil {
			h.peerDone, h.weDone = true, true
			m.release(h)
		}
	}
	return nil
}

// release stops counting a stream that both peers have ended. m.mu must be held.
func (m *meter) release(h *holding) {
	if h.gone || !h.peerDone || !h.weDone {
		return
	}
	h.gone = true
	m.held -= h.bytes
	if h.foreign {
		m.foreign--
	}
	delete(m.streams, h.id)
}

// excess returns the error of a connection that exceeded a limit, and nil
// otherwise.
func (m *meter) excess() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.exceeded
}

// count wraps s so that its reads are counted.
func (m *meter) count(s *yamux.Stream) *stream {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.streams[s.StreamID()]
	if h == nil { // the stream has already ended
		h = &holding{id: s.StreamID(), gone: true}
	}
	return &stream{Stream: s, meter: m, holding: h}
}

// stream is a stream that reports its reads to the meter.
type stream struct {
	*yamux.Stream
	meter   *meter
	holding *holding
}

// Read reads data from the peer.
func (s *stream) Read(p []byte) (int, error) {
	n, err := s.Stream.Read(p)
	if n > 0 && s.took(n) {
		s.Shrink()
	}
	return n, err
}

// took records that n bytes were read. It reports whether the stream's buffer
// is empty and too large to keep.
func (s *stream) took(n int) (shrink bool) {
	s.meter.mu.Lock()
	defer s.meter.mu.Unlock()
	h := s.holding
	h.bytes -= n
	if !h.gone {
		s.meter.held -= n
	}
	if h.bytes > 0 {
		return false
	}
	shrink, h.peak = h.peak > idleBuffer, 0
	return shrink
}

// Close ends writing. Data from the peer can still be read.
func (s *stream) Close() error {
	err := s.Stream.Close()
	s.meter.mu.Lock()
	defer s.meter.mu.Unlock()
	s.holding.weDone = true
	s.meter.release(s.holding)
	return err
}

// A yamux frame has a header with version, kind, flags, stream and length. In a
// data frame, length bytes of data follow.
const (
	frameSize = 12

	kindData   = 0
	kindWindow = 1
	kindPing   = 2

	flagSYN = 1
	flagACK = 2
	flagFIN = 4
	flagRST = 8
)

type frame struct {
	kind   byte
	flags  uint16
	stream uint32
	length uint32
}

// frames parses the frames in one direction of a connection.
type frames struct {
	header [frameSize]byte
	have   int    // bytes of the current header
	body   uint32 // bytes still to come after the last header
}

// scan calls each for every header that is complete within p, until each
// returns an error.
func (s *frames) scan(p []byte, each func(frame) error) error {
	for len(p) > 0 {
		if s.body > 0 {
			n := min(uint32(len(p)), s.body) //nolint:gosec // a read is no longer than its buffer
			s.body -= n
			p = p[n:]
			continue
		}
		n := copy(s.header[s.have:], p)
		s.have += n
		p = p[n:]
		if s.have < frameSize {
			return nil
		}
		s.have = 0
		f := frame{
			kind:   s.header[1],
			flags:  binary.BigEndian.Uint16(s.header[2:]),
			stream: binary.BigEndian.Uint32(s.header[4:]),
			length: binary.BigEndian.Uint32(s.header[8:]),
		}
		if f.kind == kindData {
			s.body = f.length
		}
		if err := each(f); err != nil {
			return err
		}
	}
	return nil
}
