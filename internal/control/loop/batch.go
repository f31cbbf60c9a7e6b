package loop

import (
	"context"
	"strings"
	"sync"
	"time"

	"aloft/internal/agent"
)

// Deltas are journaled before watchers see them, so that nothing that was seen
// is ever gone. To pay for one disk write with many deltas they are collected
// for batchTime, or until there are batchBytes of them.
const (
	batchTime  = 25 * time.Millisecond
	batchBytes = 16 << 10
)

// batch collects the deltas of one reply or one call. Its methods are safe for
// concurrent use.
type batch struct {
	ctx    context.Context
	record Record
	wake   chan struct{}
	done   chan struct{}

	mu      sync.Mutex
	bodies  []agent.Body
	size    int
	room    *sync.Cond // size has shrunk
	closing bool
	err     error
}

// newBatch starts to write what is added to it. Its owner calls close.
func newBatch(ctx context.Context, record Record) *batch {
	b := &batch{ctx: ctx, record: record, wake: make(chan struct{}, 1), done: make(chan struct{})}
	b.room = sync.NewCond(&b.mu)
	go b.run()
	return b
}

// add queues one delta; one of the kind before it is joined to it. It waits
// while the journal is behind, so that a flood of output slows its source and
// not the server.
func (b *batch) add(body agent.Body, size int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.size >= 4*batchBytes && b.err == nil {
		b.room.Wait()
	}
	if b.err != nil {
		return
	}
	if n := len(b.bodies); n == 0 || !join(b.bodies[n-1], body) {
		b.bodies = append(b.bodies, body)
	}
	b.size += size
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// join adds the delta to the one before it, if they are of one kind.
func join(to, d agent.Body) bool {
	switch to := to.(type) {
	case *agent.TextDelta:
		if d, ok := d.(*agent.TextDelta); ok {
			to.Text += d.Text
			return true
		}
	case *agent.ThinkingDelta:
		if d, ok := d.(*agent.ThinkingDelta); ok {
			to.Text += d.Text
			return true
		}
	case *agent.CallDelta:
		// Output on one stream only is joined: stdout and stderr keep their order.
		if d, ok := d.(*agent.CallDelta); ok && (to.Stdout == "") == (d.Stdout == "") && (to.Stderr == "") == (d.Stderr == "") {
			to.Stdout += d.Stdout
			to.Stderr += d.Stderr
			to.Upto = d.Upto
			return true
		}
	}
	return false
}

func (b *batch) run() {
	defer close(b.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for range b.wake {
		timer.Reset(batchTime)
		for more := true; more; {
			b.mu.Lock()
			more = !b.closing && b.size < batchBytes
			b.mu.Unlock()
			if more {
				select {
				case <-timer.C:
					more = false
				case <-b.wake:
				}
			}
		}
		if b.flush() {
			return
		}
	}
}

// flush writes what is queued, unless the batch is closing: then that is left for
// the owner. It reports whether nothing more will come.
func (b *batch) flush() (last bool) {
	b.mu.Lock()
	if b.closing {
		b.mu.Unlock()
		return true
	}
	bodies := b.bodies
	b.bodies, b.size = nil, 0
	b.mu.Unlock()
	var err error
	if len(bodies) > 0 {
		err = b.record(b.ctx, bodies...)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		b.err = err
	}
	b.room.Broadcast()
	return b.err != nil
}

// close ends the batch. It returns the deltas that are not journaled, for the
// caller to journal with what comes next, and the first error of the writing.
func (b *batch) close() (rest []agent.Body, err error) {
	b.mu.Lock()
	b.closing = true
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
	<-b.done
	return b.bodies, b.err
}

// splice shows a reply that is asked for again after it was cut: what watchers
// have seen of it is left out as far as the new reply is the same.
type splice struct {
	seen    string // that the new reply has not come to yet
	matched strings.Builder
}

// next returns what of the next piece is to be shown.
func (s *splice) next(piece string) string {
	if s.seen == "" {
		return piece
	}
	n := 0
	for n < len(piece) && n < len(s.seen) && piece[n] == s.seen[n] {
		n++
	}
	s.matched.WriteString(piece[:n])
	s.seen = s.seen[n:]
	switch {
	case n == len(piece):
		return ""
	case s.seen == "":
		return piece[n:]
	}
	// The new reply goes another way: it is shown whole, after a break.
	s.seen = ""
	return "\n\n" + strings.ToValidUTF8(s.matched.String(), "") + piece[n:]
}
