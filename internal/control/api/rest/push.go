package rest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Media types of streams.
const (
	EventStream = "text/event-stream"
	JSONLines   = "application/x-ndjson"
)

// A Push sends a reply piece by piece. If the client does not read a piece
// within [Shared.Patience], the connection is cut; the client can reconnect and
// resume.
type Push struct {
	w        http.ResponseWriter
	rc       *http.ResponseController
	patience time.Duration
	Buf      bytes.Buffer
}

// NewPush begins a streamed reply of the media type.
func (s *Shared) NewPush(w http.ResponseWriter, media string) *Push {
	w.Header().Set("Content-Type", media)
	return &Push{w: w, rc: http.NewResponseController(w), patience: cmp.Or(s.Patience, WriteWithin)}
}

// Flush sends the contents of buf, or only the header if buf is empty.
func (p *Push) Flush() error {
	_ = p.rc.SetWriteDeadline(time.Now().Add(p.patience)) // fails only in tests, whose writers have no deadlines
	_, err := p.w.Write(p.Buf.Bytes())
	p.Buf.Reset()
	if p.Buf.Cap() > 1<<20 {
		p.Buf = bytes.Buffer{}
	}
	if err != nil {
		return fmt.Errorf("write: %w", ErrGone)
	}
	if err := p.rc.Flush(); err != nil {
		return fmt.Errorf("flush: %w", ErrGone)
	}
	return nil
}

// Close resets the connection's write deadline.
func (p *Push) Close() { _ = p.rc.SetWriteDeadline(time.Time{}) }

// ErrGone means that the client has left or is too slow. It is not logged as an
// error.
var ErrGone = errors.New("the client has disconnected")
