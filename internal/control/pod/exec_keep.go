package pod

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"connectrpc.com/connect"

	"aloft/internal/fault"
)

// keep maintains a stream to exec-daemon while there is something to do, and
// reopens it when it breaks. It returns when the Exec is closed.
func (e *Exec) keep() {
	var down time.Time // since when the stream is down; zero if it is up or not needed
	pause := firstPause
	for e.ctx.Err() == nil {
		if !e.wanted() {
			down, pause = time.Time{}, firstPause
			select {
			case <-e.work:
			case <-e.ctx.Done():
			}
			continue
		}
		begun := time.Now()
		l, err := e.connect(e.ctx)
		if err == nil {
			down, pause = time.Time{}, firstPause
			err = e.converse(l)
			e.broke(err)
			continue
		}
		if down.IsZero() {
			down = begun
		}
		if last := final(err, time.Since(down)); last != nil {
			e.failAll(last)
			continue // if nothing is in flight, wait again
		}
		select {
		case <-time.After(pause):
		case <-e.ctx.Done():
		}
		pause = min(2*pause, maxPause)
	}
	e.failAll(context.Cause(e.ctx))
}

// final returns the error with which to give up, or nil to reconnect.
func final(err error, down time.Duration) error {
	switch {
	case errors.Is(err, ErrLost), errors.Is(err, ErrCatalogue):
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

// stuck returns the fault of a machine whose exec-daemon does not come back.
func stuck(down time.Duration, cause error) error {
	return fault.Unavailable("exec-daemon has been unreachable for %s", down).Named("machine_stuck").
		Hint("the machine may be out of memory or processes: check the last tool calls, then send a follow-up").Because(cause)
}

// wanted reports whether there is a reason to connect.
func (e *Exec) wanted() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.calls)+len(e.acks)+len(e.boots) > 0
}

// converse uses the stream until it breaks or the Exec is closed.
func (e *Exec) converse(l *link) error {
	ctx, cancel := context.WithCancel(e.ctx)
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
	e.adopt(l)
	err := e.read(l)
	e.mu.Lock()
	e.link = nil
	e.mu.Unlock()
	cancel()
	l.close()
	others.Wait()
	return err
}

// adopt makes l the current stream and sends everything that is in flight. A
// call that went to an earlier boot of the machine is not sent again: the new
// boot does not know it and would run it a second time.
func (e *Exec) adopt(l *link) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.link = l
	for id, of := range e.calls {
		if of.bootID != "" && of.bootID != l.bootID {
			of.fail(fmt.Errorf("%w: it restarted while call %s was running", ErrLost, id))
			delete(e.calls, id)
			continue
		}
		of.bootID = l.bootID
		l.send(callElement(of))
		if of.aborted != nil {
			l.send(abortElement(of))
		}
	}
	for id, a := range e.acks {
		e.sendAck(l, id, a)
	}
	e.tellBoot(l.hello)
}

// broke fails each call during which too many streams have broken, so that a
// machine cannot make the server resend it for ever. A message that was too
// long counts more than once, since it will fail again.
func (e *Exec) broke(err error) {
	weight := 1
	if connect.CodeOf(err) == connect.CodeResourceExhausted {
		weight = maxBreaks / 2
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, of := range e.calls {
		if of.breaks += weight; of.breaks >= maxBreaks {
			of.fail(fault.Unavailable("the stream to the machine keeps breaking under call %s", id).Because(err))
			delete(e.calls, id)
		}
	}
	for id, a := range e.acks {
		a.beat = 0
		if a.breaks += weight; a.breaks >= maxBreaks {
			a.settle(fault.Unavailable("the stream to the machine keeps breaking").Because(err))
			delete(e.acks, id)
		}
	}
}

// failAll fails everything that waits for the machine.
func (e *Exec) failAll(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, of := range e.calls {
		of.fail(err)
		delete(e.calls, id)
	}
	for id, a := range e.acks {
		a.settle(err)
		delete(e.acks, id)
	}
	e.tellBoot(hello{err: err})
}

// tellBoot sends the hello to every channel in e.boots. The caller must hold e.mu.
func (e *Exec) tellBoot(h hello) {
	for _, met := range e.boots {
		met <- h // has a buffer of one
	}
	e.boots = nil
}
