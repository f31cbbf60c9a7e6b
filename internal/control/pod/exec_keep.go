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

// keep holds a stream to exec-daemon while there is something to do, and makes
// it again when it breaks. It returns when the Exec is closed.
func (e *Exec) keep() {
	var down time.Time // since when there is no stream; zero while there is, or none is wanted
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
			continue // and with nothing in flight, to the wait above
		}
		select {
		case <-time.After(pause):
		case <-e.ctx.Done():
		}
		pause = min(2*pause, maxPause)
	}
	e.failAll(context.Cause(e.ctx))
}

// final returns the error with which to give up, nil if it is worth another try.
func final(err error, down time.Duration) error {
	switch {
	case errors.Is(err, ErrLost), errors.Is(err, ErrCatalogue):
		return err
	case errors.Is(err, errUnheard):
		return fault.Unavailable("the machine does not speak as exec-daemon does").Named("machine_failed").
			Hint("something in the task may have taken its place: look at the last tool calls, and send a follow-up").Because(err)
	case connect.CodeOf(err) == connect.CodeUnauthenticated:
		return fault.Denied("exec-daemon does not accept this server's token").Named("machine_denied").
			Hint("something in the task may have taken its place: look at the last tool calls, and send a follow-up").Because(err)
	case down > comeBack:
		return stuck(comeBack, err)
	}
	return nil
}

// stuck is the fault of a machine whose exec-daemon stays away.
func stuck(down time.Duration, cause error) error {
	return fault.Unavailable("exec-daemon has not come back for %s", down).Named("machine_stuck").
		Hint("the machine may be out of memory or processes: look at the last tool calls, and send a follow-up").Because(cause)
}

// wanted reports whether there is something to connect for.
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

// adopt makes l the stream and sends over it all that is in flight. A call
// that went to an earlier start of the machine is not sent again, since this
// one does not know it and would run it twice.
func (e *Exec) adopt(l *link) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.link = l
	for id, of := range e.calls {
		if of.bootID != "" && of.bootID != l.bootID {
			of.fail(fmt.Errorf("%w: it was started again while call %s ran", ErrLost, id))
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

// broke gives up the calls under which too many streams have broken: a machine
// could keep us sending for ever. A message that was too long will be again.
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

// failAll ends everything that waits for the machine.
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

// tellBoot needs e.mu.
func (e *Exec) tellBoot(h hello) {
	for _, met := range e.boots {
		met <- h // holds one
	}
	e.boots = nil
}
