package redact

import (
	"io"
	"sync"
	"time"
)

// Live is a writer for somebody who watches: it takes the secrets that there
// are at each write out of one text, and lets nobody wait for the end of a line
// that might begin one. Its methods are safe for concurrent use. Close it at the
// end of the text.
type Live struct {
	secrets func() *Redactor
	to      io.Writer

	mu     sync.Mutex
	of     *Redactor // of text
	text   *Stream
	quiet  *time.Timer // runs while something is held back; nil before
	err    error       // of a write to to; nothing is written after it
	closed bool
}

// NewLive returns a writer to w. secrets may return another Redactor each time,
// and nil; a nil secrets has none.
func NewLive(w io.Writer, secrets func() *Redactor) *Live {
	if secrets == nil {
		secrets = func() *Redactor { return nil }
	}
	l := &Live{secrets: secrets, to: w, of: secrets()}
	l.text = l.of.Stream()
	return l
}

// Write implements [io.Writer].
func (l *Live) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.secrets(); now != l.of { // what is held back may be the beginning of an old one
		l.pass(l.text.Flush())
		l.of, l.text = now, now.Stream()
	}
	l.pass(l.text.Next(p))
	switch {
	case !l.text.Holds() || l.closed:
	case l.quiet == nil:
		l.quiet = time.AfterFunc(Quiet, l.idle)
	default:
		l.quiet.Reset(Quiet)
	}
	if l.err != nil {
		return 0, l.err
	}
	return len(p), nil
}

func (l *Live) idle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.pass(l.text.Idle())
	}
}

// Close writes what is held back. It does not close the writer below.
func (l *Live) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed && l.quiet != nil {
		l.quiet.Stop()
	}
	l.closed = true
	l.pass(l.text.Flush())
	return l.err
}

// pass writes on. l.mu is held.
func (l *Live) pass(p []byte) {
	if l.err == nil && len(p) > 0 {
		_, l.err = l.to.Write(p)
	}
}
