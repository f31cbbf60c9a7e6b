package execd

import (
	"context"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	"aloft/internal/wire/agentv1"
)

// maxReplay limits the deltas of a call, in bytes, that are kept for clients that attach
// late or read slowly. Older deltas are dropped; a client notices the gap in the
// sequence numbers.
const maxReplay = 256 << 10

// deltaCost is the memory that a delta takes in addition to its text.
const deltaCost = 256

// call is one call: its deltas so far and, in the end, its result. Its methods
// are safe for concurrent use. A slow follower never blocks the tool.
type call struct {
	id     string
	cancel context.CancelCauseFunc // aborts the call; nil if it is not running
	load   func() *agentv1.ExecCompleted

	mu        sync.Mutex
	deltas    []*agentv1.ExecDelta // oldest first
	costs     int
	sequence  uint64
	followers int
	done      bool
	result    *agentv1.ExecCompleted // may be nil when done; load then returns the result
	changed   chan struct{}          // closed at the next change; nil if nobody waits
}

// answered returns a call that is already done, with a result.
func answered(result *agentv1.ExecCompleted) *call {
	return &call{id: result.GetCallId(), done: true, result: result}
}

// emit adds a delta.
func (c *call) emit(delta *agentv1.ToolCallDelta) {
	cost := proto.Size(delta) + deltaCost
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done {
		return // the tool emitted after it had returned
	}
	c.sequence++
	c.deltas = append(c.deltas, &agentv1.ExecDelta{CallId: c.id, Delta: delta, Sequence: c.sequence})
	c.costs += cost
	drop := 0
	for c.costs > maxReplay {
		c.costs -= proto.Size(c.deltas[drop].GetDelta()) + deltaCost
		drop++
	}
	c.deltas = slices.Delete(c.deltas, 0, drop)
	c.wake()
}

// finish sets the call's result. If load can read the result back from disk,
// the result stays in memory only while somebody follows the call.
func (c *call) finish(result *agentv1.ExecCompleted, load func() *agentv1.ExecCompleted) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done, c.result, c.load = true, result, load
	c.letGo()
	c.wake()
}

func (c *call) letGo() {
	if c.done && c.followers == 0 && c.load != nil {
		c.result = nil
	}
}

func (c *call) wake() {
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// follow sends the call's deltas, from the oldest kept one on, and then its
// result. It returns the first error of send, or ctx's error.
func (c *call) follow(ctx context.Context, send func(*agentv1.ExecServerElement) error) error {
	c.mu.Lock()
	c.followers++
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.followers--
		c.letGo()
	}()
	for last := uint64(0); ; {
		news, done, changed := c.after(last)
		for _, delta := range news {
			last = delta.GetSequence()
			err := send(&agentv1.ExecServerElement{Element: &agentv1.ExecServerElement_Delta{Delta: delta}})
			if err != nil {
				return err
			}
		}
		if done && len(news) == 0 {
			return send(&agentv1.ExecServerElement{Element: &agentv1.ExecServerElement_Completed{Completed: c.outcome()}})
		}
		if len(news) > 0 {
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// after returns a few of the oldest deltas after sequence. It returns only a
// few so that a slow reader does not keep many dropped deltas in memory. If
// there are none, it reports that the call is done, or returns a channel that
// is closed at the next change.
func (c *call) after(sequence uint64) (news []*agentv1.ExecDelta, done bool, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := 0
	if n := len(c.deltas); n > 0 && sequence >= c.deltas[0].GetSequence() {
		first = min(n, int(sequence-c.deltas[0].GetSequence())+1)
	}
	news = slices.Clone(c.deltas[first:min(len(c.deltas), first+16)])
	if len(news) == 0 && !c.done && c.changed == nil {
		c.changed = make(chan struct{})
	}
	return news, c.done, c.changed
}

func (c *call) outcome() *agentv1.ExecCompleted {
	c.mu.Lock()
	result, load := c.result, c.load
	c.mu.Unlock()
	if result == nil {
		return load()
	}
	return result
}
