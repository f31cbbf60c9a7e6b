package redact

import (
	"io"
	"sync"
	"time"
)

// Live is a writer for somebody who watches the output. It redacts the secrets known at
// the time of each write, and delays text that might be the start of a secret only
// briefly. Its methods are safe for concurrent use. The caller must Close it at the end
// of the text.
type Live struct {
	secrets func() *Redactor
	to      io.Writer

	mu     sync.Mutex
	of     *Redactor // redacts the text
	text   *Stream
	quiet  *time.Timer // runs while text is held back; nil before the first time
	err    error       // error of an earlier write; nothing is written after an error
	closed bool
}

// NewLive returns a writer to w. secrets is called for each write and may
// return a different Redactor, or nil; a nil secrets means no secrets.
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
	if now := l.secrets(); now != l.of { // the held-back text may be the start of an old secret
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

// Close writes the delayed text. It does not close the underlying writer.
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

// pass writes to the underlying writer. The caller holds l.mu.
func (l *Live) pass(p []byte) {
	if l.err == nil && len(p) > 0 {
		_, l.err = l.to.Write(p)
	}
}
