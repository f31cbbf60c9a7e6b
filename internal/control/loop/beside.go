package loop

import (
	"context"
	"errors"
	"sync"
)

// beside are the subagents that work in the background of a run: each on a
// goroutine of its own, in a conversation that the journal keeps apart from the
// agent's. What ends the run's work ends theirs, and the other way about.
type beside struct {
	ctx   context.Context // of all conversations of the run
	end   context.CancelCauseFunc
	ended chan struct{} // has something once one of them has come back
	all   sync.WaitGroup

	mu    sync.Mutex
	tasks map[string]bool // the calls at which one works
}

func newBeside(ctx context.Context) *beside {
	ctx, end := context.WithCancelCause(ctx)
	return &beside{ctx: ctx, end: end, ended: make(chan struct{}, 1), tasks: map[string]bool{}}
}

// begin has work done for the call, unless it is already.
func (b *beside) begin(task string, work func(context.Context) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tasks[task] {
		return
	}
	b.tasks[task] = true
	b.all.Go(func() {
		if err := work(b.ctx); err != nil {
			b.end(err)
		}
		select {
		case b.ended <- struct{}{}:
		default:
		}
	})
}

// wait returns when one has come back, maybe before it was called, or when the work
// of the run has ended: then with the cause.
func (b *beside) wait(ctx context.Context) error {
	select {
	case <-b.ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// stop ends them, and waits. What they do in the machine is aborted, unless another
// server is to go on with it.
func (b *beside) stop(why error) {
	if !leavesOpen(why) {
		why = ErrCancel
	}
	b.end(why)
	b.all.Wait()
}

// workBeside has those subagents work that the journal says do.
func (l *Loop) workBeside() {
	for _, sub := range l.rec.snapshot().Beside() {
		work := l.own.to(&sub)
		l.beside.begin(sub.CallID, work.aside)
	}
}

// aside works a subagent's conversation to its end, beside the agent's own, and
// journals what the agent is told of it.
func (t *talk) aside(ctx context.Context) error {
	for {
		err := t.converse(ctx)
		if errors.Is(err, ErrMachineLost) {
			if err = t.lost(ctx, err); err == nil {
				continue
			}
		}
		ended, result, err := t.ended(ctx, err)
		if err != nil {
			return err
		}
		sub := t.state().Subagent(t.task)
		ended.Told = "The subagent that worked in the background at " + sub.CallID + " (" + sub.Type + ": " + sub.Description +
			") has ended. This is what it says, which is no word of the user's:\n\n" + result.Text
		last, cancel := Outliving(ctx)
		defer cancel()
		return t.rec.record(last, ended)
	}
}
