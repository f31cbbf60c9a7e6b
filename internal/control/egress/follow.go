package egress

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"aloft/internal/policy"
)

// Limits of the data that is read from a connection before it is judged.
const (
	maxFirst    = 64 << 10         // bytes
	firstWithin = 30 * time.Second // timeout from the first byte to a complete client hello or request header
	maxChunk    = 4 << 10          // bytes of a chunk's size line
)

// errNoRequest refuses data after an HTTP request that is not another request.
var errNoRequest = errors.New("the data after an HTTP request is not another request")

// follow judges and forwards the first data from the machine, or every request
// if the connection is plain HTTP. It returns when the remaining data needs no
// check. The other direction flows concurrently, so that protocols in which the
// server speaks first work. refused is the policy's rule, worded for users;
// failed is an I/O error of either end.
func (c *connection) follow() (refused, failed error) {
	defer func() { _ = c.inside.SetReadDeadline(time.Time{}) }()
	s := &source{r: c.inside, started: func() { _ = c.inside.SetReadDeadline(time.Now().Add(firstWithin)) }}
	return follow(s, countingWriter{c.outside, &c.rec.sent}, c.replied, func(g clientHello) error {
		_ = c.inside.SetReadDeadline(time.Time{})
		c.lastHello.Store(&g)
		return g.judgeAt(c.g.policy.Load(), c.to.Addr(), c.names)
	})
}

// follow works on any pair of connections. It calls judge for every client
// hello or request header; replied observes the first bytes from the remote
// end.
func follow(s *source, dst io.Writer, replied *answerer, judge func(clientHello) error) (refused, failed error) {
	started := s.started
	for first, used := true, false; ; {
		if s.started = started; started != nil && len(s.buf) > 0 {
			started()
		}
		g, err := readClientHello(s)
		if err != nil && len(s.buf) == 0 {
			return nil, s.err
		}
		if err != nil {
			return err, nil
		}
		s.started = nil // a body has no deadline
		if len(s.buf) == 0 {
			return nil, nil // the client has closed the connection
		}
		if !first && g.protocol != "HTTP" {
			if len(bytes.TrimLeft(s.buf, "\r\n")) == 0 {
				return nil, nil // an empty line before the end
			}
			return errNoRequest, nil
		}
		if err := judge(g); err != nil {
			return err, nil
		}
		if g.protocol != "HTTP" {
			_, err := dst.Write(s.buf)
			return nil, err
		}
		if _, err := dst.Write(s.buf[:g.request.head]); err != nil {
			return nil, err
		}
		s.drop(g.request.head)
		if refused, failed := passBody(s, dst, g.request); refused != nil || failed != nil {
			return refused, failed
		}
		// The server decides whether to switch protocols. Wait for its status only
		// after the first request; later requests cannot switch.
		first = false
		if used {
			continue
		}
		used = true
		if g.request.connect {
			first = replied.status()/100 == 2 // the content of the tunnel is judged like a new connection
		} else if g.request.upgrade && replied.status() == 101 {
			_, err := dst.Write(s.buf)
			return nil, err
		}
	}
}

// passBody forwards the body of a request. If the body ends early, passBody
// returns no error.
func passBody(s *source, dst io.Writer, r request) (refused, failed error) {
	if !r.chunked {
		return nil, s.pass(dst, r.length)
	}
	for {
		line, err := s.line()
		if err != nil {
			return err, nil
		}
		if len(line) == 0 {
			return nil, nil // the client has closed the connection
		}
		size, _, _ := strings.Cut(strings.TrimSuffix(string(line), "\r\n"), ";")
		n, err := strconv.ParseUint(strings.TrimRight(size, " \t"), 16, 62)
		if err != nil {
			return errAmbiguous, nil
		}
		if err := s.pass(dst, int64(len(line))); err != nil {
			return nil, err
		}
		if n == 0 {
			return passTrailer(s, dst)
		}
		if err := s.pass(dst, int64(n)); err != nil {
			return nil, err
		}
		if s.fill(2) && string(s.buf[:2]) != "\r\n" {
			return errAmbiguous, nil
		}
		if err := s.pass(dst, 2); err != nil {
			return nil, err
		}
	}
}

// passTrailer forwards the lines after the last chunk.
func passTrailer(s *source, dst io.Writer) (refused, failed error) {
	for total := 0; total < maxFirst; {
		line, err := s.line()
		if err != nil {
			return err, nil
		}
		total += len(line)
		last := len(line) == 0 || string(line) == "\r\n"
		if err := s.pass(dst, int64(len(line))); err != nil {
			return nil, err
		}
		if last {
			return nil, nil
		}
	}
	return errTooLong, nil
}

// line returns the next line of a chunked body, including its line end, or
// nothing at the end of input. The slice is valid until the next pass.
func (s *source) line() ([]byte, error) {
	for n := 0; ; {
		if i := bytes.IndexByte(s.buf[n:], '\n'); i >= 0 {
			line := s.buf[:n+i+1]
			if len(line) > maxChunk {
				return nil, errTooLong
			}
			if j := bytes.IndexByte(line, '\r'); j < 0 || j != len(line)-2 {
				return nil, errStray
			}
			return line, nil
		}
		if len(s.buf) > maxChunk {
			return nil, errTooLong
		}
		if n = len(s.buf); !s.fill(n + 1) {
			return nil, s.failure()
		}
	}
}

// pass forwards n bytes, or fewer if the input ends earlier.
func (s *source) pass(dst io.Writer, n int64) error {
	have := min(n, int64(len(s.buf)))
	if _, err := dst.Write(s.buf[:have]); err != nil {
		return err
	}
	s.drop(int(have))
	if n == have || s.err != nil {
		return nil //nolint:nilerr // forward the bytes read; the next read returns the error again
	}
	return copyCounted(dst, io.LimitReader(s.r, n-have), new(atomic.Int64)) // dst does the counting
}

// A countingWriter counts the bytes written.
type countingWriter struct {
	io.Writer
	count *atomic.Int64
}

func (w countingWriter) Write(b []byte) (int, error) {
	n, err := w.Writer.Write(b)
	w.count.Add(int64(n))
	return n, err
}

// An answerer forwards reads from the remote end and captures its first bytes.
type answerer struct {
	io.Reader
	words []byte // at most statusLen bytes
	known chan struct{}
	once  sync.Once
}

const statusLen = len("HTTP/1.1 101")

func newAnswerer(r io.Reader) *answerer { return &answerer{Reader: r, known: make(chan struct{})} }

func (r *answerer) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if len(r.words) < statusLen {
		r.words = append(r.words, b[:min(n, statusLen-len(r.words))]...)
		if len(r.words) == statusLen || err != nil {
			r.markKnown()
		}
	}
	return n, err
}

// markKnown wakes callers of status: all of the first bytes that will be read
// have been read.
func (r *answerer) markKnown() { r.once.Do(func() { close(r.known) }) }

// status waits for the remote end's first bytes and returns the HTTP status, or
// 0 if they are not an HTTP/1.1 reply.
func (r *answerer) status() int {
	<-r.known
	if len(r.words) < statusLen || !bytes.HasPrefix(r.words, []byte("HTTP/1.")) {
		return 0
	}
	n, err := strconv.Atoi(string(r.words[len("HTTP/1.1 "):]))
	if err != nil || n < 0 || n > math.MaxInt16 {
		return 0
	}
	return n
}

// rejudge returns an error if a new policy refuses an open connection.
func (c *connection) rejudge(m *policy.Matcher) error {
	if g := c.lastHello.Load(); g != nil {
		return g.judgeAt(m, c.to.Addr(), c.names)
	}
	if !c.followed && m.Mode() == policy.List && !m.ByAddress(c.to.Addr()) {
		return errors.New("mode list: the host of the connection is unknown, since it was opened before the policy was set")
	}
	return nil
}
