package loop

import (
	"cmp"
	"context"
	"slices"
	"sync"
)

// acks are the acknowledgements of a conversation's results. acks sends them
// while the model writes its next reply, before the calls of that reply. If the
// server dies before sending one, the next loop that reaches the machine drops
// the call there.
type acks struct {
	mu      sync.Mutex
	due     []string // ids of calls whose results are journaled
	pending []<-chan error
}

func (a *acks) add(callID string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.due = append(a.due, callID)
}

// acknowledge starts to tell the machine which results are journaled, and does
// not wait for replies.
func (t *thread) acknowledge(ctx context.Context) {
	t.acks.mu.Lock()
	defer t.acks.mu.Unlock()
	h := t.machine
	for _, id := range t.acks.due {
		answer := make(chan error, 1)
		go func() { answer <- h.Ack(ctx, id) }()
		t.acks.pending = append(t.acks.pending, answer)
	}
	t.acks.due = nil
}

// refused removes the replies that the machine has sent so far, and returns the
// first error among them. It does not wait for further replies.
func (a *acks) refused() (err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pending = slices.DeleteFunc(a.pending, func(answer <-chan error) bool {
		select {
		case e := <-answer:
			err = cmp.Or(err, e)
			return true
		default:
			return false
		}
	})
	return err
}

// acknowledged waits until the machine has confirmed all acknowledgements. It
// returns the first error.
func (t *thread) acknowledged() (err error) {
	t.acks.mu.Lock()
	defer t.acks.mu.Unlock()
	for _, answer := range t.acks.pending {
		err = cmp.Or(err, <-answer)
	}
	t.acks.pending = nil
	return err
}
