package execclient

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"connectrpc.com/connect"

	"aloft/internal/control/pod"
	"aloft/internal/fault"
)

// keep maintains a stream to exec-daemon while there are calls or
// acknowledgements to send, and reopens it when it breaks. It returns when the
// Calls is closed.
func (cs *Calls) keep() {
	var down time.Time // since when the stream is down; zero if it is up or not needed
	pause := firstPause
	for cs.ctx.Err() == nil {
		if !cs.wanted() {
			down, pause = time.Time{}, firstPause
			select {
			case <-cs.work:
			case <-cs.ctx.Done():
			}
			continue
		}
		begun := time.Now()
		l, err := cs.connect(cs.ctx)
		if err == nil {
			down, pause = time.Time{}, firstPause
			err = cs.converse(l)
			cs.broke(err)
			continue
		}
		if down.IsZero() {
			down = begun
		}
		if last := final(err, time.Since(down)); last != nil {
			cs.failAll(last)
			continue // if nothing is in flight, wait again
		}
		select {
		case <-time.After(pause):
		case <-cs.ctx.Done():
		}
		pause = min(2*pause, maxPause)
	}
	cs.failAll(context.Cause(cs.ctx))
}

// final returns the error after which to stop reconnecting, or nil to
// reconnect.
func final(err error, down time.Duration) error {
	switch {
	case errors.Is(err, pod.ErrLost), errors.Is(err, ErrCatalogue):
		return err
	case errors.Is(err, errUnheard):
		return fault.Unavailable("the machine does not speak exec-daemon's protocol").Named("machine_failed").
			Hint("something in the task may have replaced it: check the last tool calls, then send a follow-up").Because(err)
	case connect.CodeOf(err) == connect.CodeUnauthenticated:
		return fault.Denied("exec-daemon does not accept this server's token").Named("machine_denied").
			Hint("something in the task may have replaced it: check the last tool calls, then send a follow-up").Because(err)
	case down > comeBack:
		return stuck(comeBack, err)
	}
	return nil
}

// stuck returns the fault for a machine whose exec-daemon stays unreachable.
func stuck(down time.Duration, cause error) error {
	return fault.Unavailable("exec-daemon has been unreachable for %s", down).Named("machine_stuck").
		Hint("the machine may be out of memory or processes: check the last tool calls, then send a follow-up").Because(cause)
}

// wanted reports whether there is a reason to connect.
func (cs *Calls) wanted() bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return len(cs.calls)+len(cs.acks)+len(cs.boots) > 0
}

// converse uses the stream until it breaks or the Calls is closed.
func (cs *Calls) converse(l *link) error {
	ctx, cancel := context.WithCancel(cs.ctx)
	var others sync.WaitGroup
	others.Go(func() { l.write(ctx) })
	others.Go(func() {
		ticker := time.NewTicker(beatEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				l.beat()
			case <-ctx.Done():
				return
			}
		}
	})
	cs.adopt(l)
	err := cs.read(l)
	cs.mu.Lock()
	cs.link = nil
	cs.mu.Unlock()
	cancel()
	l.close()
	others.Wait()
	return err
}

// adopt makes l the current stream and sends all calls and acknowledgements
// that are in flight. It does not resend a call to a later boot of the machine:
// the new boot does not know the call and would run it a second time.
func (cs *Calls) adopt(l *link) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.link = l
	for id, of := range cs.calls {
		if of.bootID != "" && of.bootID != l.bootID {
			of.fail(fmt.Errorf("%w: it restarted while call %s was running", pod.ErrLost, id))
			delete(cs.calls, id)
			continue
		}
		of.bootID = l.bootID
		l.send(callElement(of))
		if of.aborted != nil {
			l.send(abortElement(of))
		}
	}
	for id, a := range cs.acks {
		cs.sendAck(l, id, a)
	}
	cs.tellBoot(l.hello)
}

// broke fails each call during which too many streams have broken, so that a
// machine cannot make the server resend the call forever. A break because of a
// too long message counts more than once, since that message will fail again.
func (cs *Calls) broke(err error) {
	weight := 1
	if connect.CodeOf(err) == connect.CodeResourceExhausted {
		weight = maxBreaks / 2
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for id, of := range cs.calls {
		if of.breaks += weight; of.breaks >= maxBreaks {
			of.fail(fault.Unavailable("the stream to the machine keeps breaking under call %s", id).Because(err))
			delete(cs.calls, id)
		}
	}
	for id, a := range cs.acks {
		a.beat = 0
		if a.breaks += weight; a.breaks >= maxBreaks {
			a.settle(fault.Unavailable("the stream to the machine keeps breaking").Because(err))
			delete(cs.acks, id)
		}
	}
}

// failAll fails all calls, acknowledgements and other waiters.
func (cs *Calls) failAll(err error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for id, of := range cs.calls {
		of.fail(err)
		delete(cs.calls, id)
	}
	for id, a := range cs.acks {
		a.settle(err)
		delete(cs.acks, id)
	}
	cs.tellBoot(hello{err: err})
}

// tellBoot sends the hello to every channel in cs.boots. The caller must hold cs.mu.
func (cs *Calls) tellBoot(h hello) {
	for _, met := range cs.boots {
		met <- h // has a buffer of one
	}
	cs.boots = nil
}
