package loop

import (
	"context"
	"errors"
	"sync"

	"aloft/internal/control/loop/journal"
	"aloft/internal/control/loop/remote"
	"aloft/internal/fault"
)

// background runs the subagents that work in the background of a run. Each has
// its own goroutine and its own conversation in the journal. They end with the
// run's work. An error of a subagent ends the run's work.
type background struct {
	ctx       context.Context // parent of all conversations of the run
	end       context.CancelCauseFunc
	taskEnded chan struct{} // receives after a subagent has ended
	all       sync.WaitGroup

	mu    sync.Mutex
	tasks map[string]bool // ids of the calls whose subagents are running
}

func newBackground(ctx context.Context) *background {
	ctx, end := context.WithCancelCause(ctx)
	return &background{ctx: ctx, end: end, taskEnded: make(chan struct{}, 1), tasks: map[string]bool{}}
}

// begin starts work for the call, unless it is already running.
func (b *background) begin(task string, work func(context.Context) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tasks[task] {
		return
	}
	b.tasks[task] = true
	b.all.Go(func() {
		if err := fault.Contain(func() error { return work(b.ctx) }); err != nil {
			b.end(err)
		}
		select {
		case b.taskEnded <- struct{}{}:
		default:
		}
	})
}

// wait returns when a subagent has ended, or at once if one ended before the
// call. If the run's work ends first, it returns the cause.
func (b *background) wait(ctx context.Context) error {
	select {
	case <-b.taskEnded:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// stop ends all background subagents and waits for them. Their calls in the
// machine are aborted, unless another server will continue the run.
func (b *background) stop(why error) {
	if !journal.LeavesOpen(why) {
		why = ErrCancel
	}
	b.end(why)
	b.all.Wait()
}

// startBackground starts the background subagents that are active according to the
// journal.
func (l *Loop) startBackground() {
	for _, sub := range l.rec.Snapshot().Background() {
		work := l.own.subagentThread(&sub)
		l.background.begin(sub.CallID, work.runInBackground)
	}
}

// runInBackground runs a subagent's conversation in the background until it ends, and
// journals the message that tells the agent its outcome.
func (t *thread) runInBackground(ctx context.Context) error {
	for {
		err := t.converse(ctx)
		if errors.Is(err, remote.ErrLost) {
			if err = t.forgetMachine(ctx, err); err == nil {
				continue
			}
		}
		ended, result, err := t.taskResult(ctx, err)
		if err != nil {
			return err
		}
		sub := t.state().Subagent(t.task)
		ended.Told = "The subagent that worked in the background at " + sub.CallID + " (" + sub.Type + ": " + sub.Description +
			") has ended. This is its answer, which is not a message from the user:\n\n" + result.Text
		last, cancel := journal.Outliving(ctx)
		defer cancel()
		return t.rec.Record(last, ended)
	}
}
