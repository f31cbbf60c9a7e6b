package process

import (
	"context"
	"strings"
	"sync"
	"unicode/utf8"
)

// maxPrinted is how much of a process's output is kept, in bytes.
const maxPrinted = 256 << 10

// Output is the last part of a process's output. Offsets count from the first
// byte that was ever printed. The zero value is ready to use. Its methods are
// safe for concurrent use.
type Output struct {
	mu   sync.Mutex
	text []byte
	end  int64
	more chan struct{} // closed when output arrives; nil if nobody waits
}

func (o *Output) write(s string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, s...)
	o.end += int64(len(s))
	if len(o.text) > 2*maxPrinted {
		o.text = append(o.text[:0], o.text[len(o.text)-maxPrinted:]...)
	}
	if o.more != nil {
		close(o.more)
		o.more = nil
	}
}

// Read returns the output from an offset on, and how many bytes between that
// offset and text are no longer kept.
func (o *Output) Read(from int64) (text string, next, skipped int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	kept := o.text[max(0, len(o.text)-maxPrinted):]
	start := o.end - int64(len(kept))
	from = min(max(from, 0), o.end)
	at := max(from, start)
	b := kept[at-start:]
	for at > from && len(b) > 0 && !utf8.RuneStart(b[0]) {
		b, at = b[1:], at+1
	}
	return strings.ToValidUTF8(string(b), "\uFFFD"), o.end, at - from
}

// Wait waits for output after an offset, or until over is closed or ctx ends.
func (o *Output) Wait(ctx context.Context, beyond int64, over <-chan struct{}) error {
	o.mu.Lock()
	if o.end > beyond {
		o.mu.Unlock()
		return nil
	}
	if o.more == nil {
		o.more = make(chan struct{})
	}
	more := o.more
	o.mu.Unlock()
	select {
	case <-more:
	case <-over:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}
