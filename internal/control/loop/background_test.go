package loop_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/loop"
	"aloft/internal/control/loop/journal"
	"aloft/internal/control/loop/remote"
	"aloft/internal/control/model"
	"aloft/internal/conversation"
	"aloft/internal/policy/permit"
	"aloft/internal/tool"
)

const backgroundTask = `Task {"description":"look","prompt":"count them","is_background":true}`

// runConcurrently runs an agent and its background subagent. Each makes two
// calls and then ends. The agent gets the subagent's answer, and repeats it in
// another reply.
func runConcurrently(told *atomic.Pointer[model.Request]) asked {
	return func(req model.Request, turn int) step {
		switch {
		case strings.HasPrefix(req.System, "You are a subagent"):
			return []step{use(`Read {"path":"theirs"}`), use(`Shell {"command":"theirs"}`), say("forty")}[turn]
		case strings.Contains(req.Messages[len(req.Messages)-1].PlainText(), "forty"):
			told.Store(&req)
			return say("they say forty")
		}
		return []step{use(backgroundTask), use(`Shell {"command":"mine"}`), say("I wait")}[min(turn, 2)]
	}
}

// asked is a model whose reply depends on the request and on the number of
// earlier replies in it.
type asked func(req model.Request, turn int) step

// Stream implements [model.Model].
func (f asked) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Event, error] {
	return byPrompt(func(_ string, turn int) step { return f(req, turn) }).Stream(ctx, req)
}

// TestTaskInTheBackground checks that the agent continues while its subagent
// works, that the run does not end before the subagent, and that the agent gets
// the subagent's answer.
func TestTaskInTheBackground(t *testing.T) {
	r := newRig(t, true)
	var both sync.WaitGroup
	both.Add(2)
	r.machine.call = func(_ context.Context, c conversation.ToolCall, _ func(remote.Delta)) (tool.Result, error) {
		if c.Name == "Shell" {
			both.Done()
			both.Wait() // blocks unless both work at the same time
		}
		return tool.Result{Text: "ok"}, nil
	}
	var told atomic.Pointer[model.Request]
	c := r.config()
	c.Models.Model = runConcurrently(&told)
	if err := loop.Run(t.Context(), r.id, c); err != nil {
		t.Fatal(err)
	}
	end := bodies[*agent.RunEnded](r)[0]
	if end.Status != agent.Finished || end.Result != "they say forty" {
		t.Fatalf("got %+v", end)
	}
	checkConversation(t, told.Load().Messages)
	done := bodies[*agent.CallDone](r)
	if !strings.Contains(done[0].Text, "in the background") || !strings.Contains(string(done[0].Output), `"background":true`) {
		t.Errorf("the call's result is %+v", done[0])
	}
	began, ended := bodies[*agent.TaskBegan](r), bodies[*agent.TaskEnded](r)
	if len(began) != 1 || !began[0].Background || len(ended) != 1 || ended[0].ToolCalls != 2 || ended[0].Status != "completed" {
		t.Errorf("began %+v, ended %+v", began, ended)
	}
	var used conversation.Usage
	for _, reply := range append(bodies[*agent.TurnReplied](r), within[*agent.TurnReplied](r)...) {
		used = used.Add(reply.Usage)
	}
	if run, err := r.store.Run(t.Context(), r.id, r.run); err != nil || run.Usage != used || used.Output < 10 {
		t.Errorf("the run has used %+v of %+v, %v", run.Usage, used, err)
	}
}

// TestCrashDuringBackgroundTask stops the server after each event of a run with
// a background subagent. The next server must continue both conversations
// without repeating a call, and the run must end in the same way.
func TestCrashDuringBackgroundTask(t *testing.T) {
	rigs := newRig(t, false)
	for crash := int64(3); ; crash++ {
		r := rigs.another(false)
		c := r.config()
		var told atomic.Pointer[model.Request]
		c.Models.Model = runConcurrently(&told)
		ctx, stop := context.WithCancelCause(t.Context())
		c.Journal = &dying{Journal: r.store, at: crash, die: func() { stop(loop.ErrStop) }}
		var mu sync.Mutex
		made, kept := map[string]int{}, map[string]bool{}
		r.machine.call = func(_ context.Context, c conversation.ToolCall, _ func(remote.Delta)) (tool.Result, error) {
			mu.Lock()
			defer mu.Unlock()
			if !kept[c.ID] {
				kept[c.ID] = true
				made[string(c.Args)]++
			}
			return tool.Result{Text: "ok"}, nil
		}
		err := loop.Run(ctx, r.id, c)
		if err == nil {
			if crash < 15 {
				t.Fatalf("the run had %d events", crash)
			}
			return // the run ended before this event
		}
		if !errors.Is(err, loop.ErrStop) && !errors.Is(err, errDead) {
			t.Fatalf("after %d: %v", crash, err)
		}
		c.Journal = r.store
		if err := loop.Run(t.Context(), r.id, c); err != nil {
			t.Fatalf("after %d: %v", crash, err)
		}
		ended := bodies[*agent.TaskEnded](r)
		if len(bodies[*agent.TaskBegan](r)) != 1 || len(ended) != 1 || ended[0].ToolCalls != 2 || len(made) != 3 || bodies[*agent.RunEnded](r)[0].Result != "they say forty" {
			t.Errorf("after %d: ended %+v, calls %v, %+v", crash, ended, made, bodies[*agent.RunEnded](r)[0])
		}
		for args, n := range made {
			if n != 1 {
				t.Errorf("after %d: %s was made %d times", crash, args, n)
			}
		}
		checkConversation(t, told.Load().Messages)
	}
}

// A cancelled run aborts the calls of all its conversations. The next run tells
// the agent that the subagent did not finish.
func TestCancelDuringBackgroundTask(t *testing.T) {
	r := newRig(t, false)
	ctx, cancel := context.WithCancelCause(t.Context())
	var working sync.WaitGroup
	working.Add(2)
	aborted := make(chan error, 2)
	r.machine.call = func(ctx context.Context, c conversation.ToolCall, _ func(remote.Delta)) (tool.Result, error) {
		if c.Name == "Shell" {
			working.Done()
			<-ctx.Done()
			aborted <- context.Cause(ctx)
		}
		return tool.Result{Text: "ok"}, nil
	}
	go func() {
		working.Wait()
		cancel(loop.ErrCancel)
	}()
	c := r.config()
	var told atomic.Pointer[model.Request]
	c.Models.Model = runConcurrently(&told)
	if err := loop.Run(ctx, r.id, c); err != nil {
		t.Fatal(err)
	}
	if a, b := <-aborted, <-aborted; !loop.Aborts(a) || !loop.Aborts(b) || bodies[*agent.RunEnded](r)[0].Status != agent.Cancelled {
		t.Errorf("aborted for %v and %v", a, b)
	}
	state := agent.Fold(r.id, r.events())
	last := state.Messages[len(state.Messages)-1].PlainText()
	if len(state.Background()) != 0 || !strings.Contains(last, "has not finished") {
		t.Errorf("the agent is told %q", last)
	}
}

// The usage of a background subagent counts towards the run's limits and can
// end the run.
func TestLimitDuringBackgroundTask(t *testing.T) {
	r := newRig(t, false)
	r.allowed.Tokens = 40 // each reply uses 15 tokens
	c := r.config()
	c.Models.Model = asked(func(req model.Request, turn int) step {
		if strings.HasPrefix(req.System, "You are a subagent") {
			return counted(use(`Read {"path":"a"}`))
		}
		return []step{counted(use(backgroundTask)), say("I wait"), say("again")}[turn]
	})
	if err := loop.Run(t.Context(), r.id, c); err != nil {
		t.Fatal(err)
	}
	end := bodies[*agent.RunEnded](r)[0]
	if end.Status != agent.Expired || end.Failure.Code != "limit_tokens" {
		t.Errorf("got %+v", end)
	}
}

// counted is a step whose reply reports 10 output tokens.
func counted(of step) step {
	return func(yield func(model.Event, error) bool) {
		of(func(e model.Event, err error) bool {
			if e.Done != nil {
				e.Done.Usage.Output = 10
			}
			return yield(e, err)
		})
	}
}

// A background subagent's approval request names the subagent and blocks no
// other conversation.
func TestApprovalDuringBackgroundTask(t *testing.T) {
	r := newRig(t, false)
	r.reviewed(permit.Allowlist, "")
	c := r.config()
	c.Review = r.review
	mine := make(chan struct{})
	c.Models.Model = asked(func(req model.Request, turn int) step {
		switch {
		case strings.HasPrefix(req.System, "You are a subagent"):
			return []step{use(`Shell {"command":"rm -rf x"}`), say("it may")}[turn]
		case strings.Contains(req.Messages[len(req.Messages)-1].PlainText(), "it may"):
			return say("done")
		case turn == 2:
			close(mine)
		}
		return []step{use(backgroundTask), use(`Read {"path":"a"}`), say("I wait")}[turn]
	})
	ended := make(chan error, 1)
	go func() { ended <- loop.Run(t.Context(), r.id, c) }()
	<-mine
	q := r.asked()
	r.answer(agent.AllowOnce, "")
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if q.By != "generalPurpose: look" || q.Task != bodies[*agent.TaskBegan](r)[0].CallID || bodies[*agent.RunEnded](r)[0].Result != "done" {
		t.Errorf("asked %+v", q)
	}
}

// If several conversations notice the loss of the machine, the loss is
// journaled once and all continue.
func TestMachineLostDuringBackgroundTask(t *testing.T) {
	r := newRig(t, false)
	next := &fakeMachine{boot: "boot-2"}
	var both sync.WaitGroup
	both.Add(2)
	r.machine.call = func(_ context.Context, c conversation.ToolCall, _ func(remote.Delta)) (tool.Result, error) {
		if c.Name == "Shell" {
			both.Done()
			both.Wait()
			return tool.Result{}, remote.ErrLost
		}
		return tool.Result{Text: "ok"}, nil
	}
	c := r.config()
	var told atomic.Pointer[model.Request]
	c.Models.Model = runConcurrently(&told)
	var made atomic.Int32
	c.Machine = func(context.Context, *agent.State, journal.Record) (remote.Machine, error) {
		if made.Add(1) == 1 {
			return r.machine, nil
		}
		return next, nil
	}
	if err := loop.Run(t.Context(), r.id, c); err != nil {
		t.Fatal(err)
	}
	lost := len(bodies[*agent.MachineLost](r))
	if end := bodies[*agent.RunEnded](r)[0]; end.Result != "they say forty" || lost != 1 || made.Load() > 2 {
		t.Errorf("%+v after %d losses, with %d machines", end, lost, made.Load())
	}
}
