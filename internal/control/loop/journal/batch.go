package journal

import (
	"context"
	"sync"
	"time"

	"aloft/internal/agent"
)

// Deltas are journaled before clients see them, so that clients never see text
// that a crash then loses. To save disk writes, a batch collects deltas for
// batchTime, or until they take batchBytes.
const (
	batchTime  = 25 * time.Millisecond
	batchBytes = 16 << 10
)

// Batch collects the deltas of one reply or one call. Its methods are safe for
// concurrent use.
type Batch struct {
	ctx    context.Context
	record Record
	wake   chan struct{}
	done   chan struct{}

	mu      sync.Mutex
	bodies  []agent.Body
	size    int
	room    *sync.Cond // signalled when size has shrunk
	started bool       // whether the goroutine of run was started
	closing bool
	err     error
}

// NewBatch returns a batch that journals what is added. The caller must call Close.
func NewBatch(ctx context.Context, record Record) *Batch {
	b := &Batch{ctx: ctx, record: record, wake: make(chan struct{}, 1), done: make(chan struct{})}
	b.room = sync.NewCond(&b.mu)
	return b
}

// Add queues a delta. If the delta has the same kind as the previous one, Add
// merges them. Add blocks while the journal is behind, so that a flood of
// output slows down its source instead of the server.
func (b *Batch) Add(body agent.Body, size int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.size >= 4*batchBytes && b.err == nil {
		b.room.Wait()
	}
	if b.err != nil || b.closing {
		return
	}
	if n := len(b.bodies); n == 0 || !join(b.bodies[n-1], body) {
		b.bodies = append(b.bodies, body)
	}
	b.size += size
	if !b.started {
		b.started = true
		go b.run()
	}
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// join merges d into the delta before it, if both have the same kind.
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
		// Only output of the same stream is merged, so that stdout and stderr
		// keep their order.
		if d, ok := d.(*agent.CallDelta); ok && (to.Stdout == "") == (d.Stdout == "") && (to.Stderr == "") == (d.Stderr == "") {
			to.Stdout += d.Stdout
			to.Stderr += d.Stderr
			to.Upto = d.Upto
			return true
		}
	}
	return false
}

func (b *Batch) run() {
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

// flush journals the queued deltas. If the batch is closing, flush leaves the
// rest to Close. It returns true if the batch is closed.
func (b *Batch) flush() (last bool) {
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

// Close ends the batch. It returns the deltas that are not journaled yet, so
// that the caller can journal them together with the next events, and the first
// write error.
func (b *Batch) Close() (rest []agent.Body, err error) {
	b.mu.Lock()
	b.closing = true
	started := b.started
	b.mu.Unlock()
	if !started {
		return nil, nil
	}
	select {
	case b.wake <- struct{}{}:
	default:
	}
	<-b.done
	return b.bodies, b.err
}
