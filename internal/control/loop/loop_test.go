package loop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"aloft/internal/agent"
	"aloft/internal/allowance"
	"aloft/internal/control/loop"
	"aloft/internal/control/loop/journal"
	"aloft/internal/control/loop/offer"
	"aloft/internal/control/loop/remote"
	"aloft/internal/control/model"
	"aloft/internal/control/store"
	"aloft/internal/control/store/sqlite"
	controltool "aloft/internal/control/tool"
	"aloft/internal/conversation"
	"aloft/internal/environment"
	"aloft/internal/fault"
	"aloft/internal/tool"
)

// rig is one agent with an open run, on a real store.
type rig struct {
	t       *testing.T
	store   *sqlite.Store
	id      string
	run     string
	model   answers
	info    model.Info
	machine *fakeMachine
	err     error // the error of Machine
	review  loop.Reviewer
	// scripts are the install scripts that agents proposed for later machines.
	scripts scripts
	// attribution says who wrote lines; nil if the server does not know.
	attribution controltool.Attributor
	pulls       *pulls // nil if there is no forge
	allowed     allowance.Amount
	mcp         offer.Servers
	change      func(*loop.Config) // nil if the test changes nothing
}

type scripts struct{ kept []string }

func (s *scripts) KeepScript(_ context.Context, _ agent.Agent, callID, script string) (environment.Saved, error) {
	s.kept = append(s.kept, script)
	return environment.Saved{ID: "env-1", VersionID: callID}, nil
}

func newRig(t *testing.T, repo bool) *rig {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "aloft.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return (&rig{t: t, store: s}).another(repo)
}

// another returns a rig with a new agent, on the same store.
func (r *rig) another(repo bool) *rig {
	r.t.Helper()
	r = &rig{t: r.t, store: r.store, id: agent.NewID(), run: agent.NewRunID(), machine: &fakeMachine{boot: "boot-1"}, info: model.Info{ID: "m"}}
	created := &agent.Created{Name: "mend it", Branch: "aloft/test-0000"}
	if repo {
		created.Repos = []agent.Repo{{URL: "https://git.example.com/r"}}
	}
	r.begin(created)
	return r
}

// begin creates the rig's agent.
func (r *rig) begin(created *agent.Created) {
	r.t.Helper()
	head := int64(0)
	r.append(store.Append{AgentID: r.id, IfHead: &head, Events: []agent.Event{
		{Body: created},
		{RunID: r.run, Body: &agent.RunCreated{Prompt: conversation.Text(conversation.User, "mend it")}},
	}})
}

func (r *rig) append(a store.Append) {
	r.t.Helper()
	if _, err := r.store.Append(r.t.Context(), a); err != nil {
		r.t.Fatal(err)
	}
}

// record appends events of the run, as an earlier loop would have done.
func (r *rig) record(bodies ...agent.Body) {
	r.t.Helper()
	a := store.Append{AgentID: r.id}
	for _, b := range bodies {
		a.Events = append(a.Events, agent.Event{RunID: r.run, Body: b})
	}
	r.append(a)
}

func (r *rig) config() loop.Config {
	c := loop.Config{
		Journal: r.store, Models: loop.Models{Model: &r.model, Info: r.info}, Logger: slog.New(slog.DiscardHandler),
		Review:  r.review,
		Tools:   loop.Tools{Scripts: &r.scripts, MCP: r.mcp, Attribution: r.attribution},
		Team:    loop.Team{Allowed: func(context.Context, agent.Agent) (allowance.Amount, error) { return r.allowed, nil }},
		Machine: func(context.Context, *agent.State, journal.Record) (remote.Machine, error) { return r.machine, r.err },
	}
	if r.pulls != nil {
		c.Pulls = r.pulls
	}
	if r.change != nil {
		r.change(&c)
	}
	return c
}

// work runs the loop to the end of the run and returns the run.
func (r *rig) work(ctx context.Context) agent.Run {
	r.t.Helper()
	if err := loop.Run(ctx, r.id, r.config()); err != nil {
		r.t.Fatal(err)
	}
	run, err := r.store.Run(r.t.Context(), r.id, r.run)
	if err != nil {
		r.t.Fatal(err)
	}
	return run
}

// restart runs a server that works on the run, and stops it when awaited
// returns.
func (r *rig) restart(awaited func()) {
	r.t.Helper()
	ctx, stop := context.WithCancelCause(r.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- loop.Run(ctx, r.id, r.config()) }()
	awaited()
	stop(loop.ErrStop)
	<-ended
}

func (r *rig) events() []agent.Event {
	r.t.Helper()
	events, err := r.store.Read(r.t.Context(), r.id, 0, 100_000)
	if err != nil {
		r.t.Fatal(err)
	}
	return events
}

// bodies returns the events of one type, in order.
func bodies[B agent.Body](r *rig) []B {
	r.t.Helper()
	var out []B
	for _, e := range r.events() {
		if b, ok := e.Body.(B); ok {
			out = append(out, b)
		}
	}
	return out
}

// shown returns the reply text that clients have seen.
func (r *rig) shown() string {
	var s string
	for _, d := range bodies[*agent.TextDelta](r) {
		s += d.Text
	}
	return s
}

// answers is a model that plays one of its steps per request.
type answers struct {
	steps    []step
	requests []model.Request
}

type step func(yield func(model.Event, error) bool)

func (a *answers) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Event, error] {
	a.requests = append(a.requests, req)
	return func(yield func(model.Event, error) bool) {
		if len(a.requests) > len(a.steps) {
			yield(model.Event{}, &model.Error{Reason: model.BadRequest, Message: "no more answers"})
			return
		}
		a.steps[len(a.requests)-1](yield)
	}
}

// say is a reply with text, streamed in the given pieces.
func say(pieces ...string) step {
	return func(yield func(model.Event, error) bool) {
		for _, p := range pieces {
			if !yield(model.Event{Text: p}, nil) {
				return
			}
		}
		yield(model.Event{Done: &model.Reply{Stop: model.StopEnd, Message: conversation.Text(conversation.Assistant, strings.Join(pieces, "")),
			Usage: conversation.Usage{Input: 10, Output: 5}}}, nil)
	}
}

// use is a reply with calls, each written as "Name {json}".
func use(calls ...string) step {
	m := conversation.Message{Role: conversation.Assistant}
	for _, c := range calls {
		name, args, _ := strings.Cut(c, " ")
		m.Blocks = append(m.Blocks, conversation.Block{Call: &conversation.ToolCall{ID: "call_0", Name: name, Args: json.RawMessage(args)}})
	}
	return func(yield func(model.Event, error) bool) {
		yield(model.Event{Done: &model.Reply{Stop: model.StopCalls, Message: m}}, nil)
	}
}

// fail is a reply that streams the pieces and then fails.
func fail(err error, pieces ...string) step {
	return func(yield func(model.Event, error) bool) {
		for _, p := range pieces {
			if !yield(model.Event{Text: p}, nil) {
				return
			}
		}
		yield(model.Event{}, err)
	}
}

func TestRunToItsEnd(t *testing.T) {
	r := newRig(t, true)
	r.model.steps = []step{use(`Shell {"command":"make test"}`), use(`Read {"path":"a"}`, `Read {"path":"b"}`), say("all ", "done")}
	run := r.work(t.Context())
	if run.Status != agent.Finished || run.Result != "all done" || run.Turns != 3 {
		t.Errorf("got %+v", run)
	}
	if want := []agent.Branch{{RepoURL: "https://git.example.com/r", Branch: "aloft/test-0000", Commit: "c0ffee"}}; !slices.Equal(run.Branches, want) {
		t.Errorf("branches %v", run.Branches)
	}
	if want := []string{"Shell", "Read", "Read", "commit", "push aloft/test-0000"}; !slices.Equal(r.machine.asked, want) {
		t.Errorf("asked %q, want %q", r.machine.asked, want)
	}
	if r.shown() != "all done" || len(r.machine.acked) != 3 {
		t.Errorf("shown %q, acknowledged %q", r.shown(), r.machine.acked)
	}
}

func TestCallsHaveIDsOfOurOwn(t *testing.T) {
	r := newRig(t, false)
	r.model.steps = []step{use(`Shell {}`), use(`Shell {}`, `Shell {}`), say("done")}
	r.work(t.Context())
	seen := map[string]bool{}
	for _, c := range bodies[*agent.CallDone](r) {
		if seen[c.CallID] {
			t.Errorf("%s stands twice", c.CallID)
		}
		seen[c.CallID] = true
	}
	if len(seen) != 3 {
		t.Errorf("got %d calls, want 3", len(seen))
	}
}

func TestReadOnlyCallsRunSideBySide(t *testing.T) {
	r := newRig(t, false)
	var together sync.WaitGroup
	together.Add(3)
	r.machine.call = func(context.Context, conversation.ToolCall, func(remote.Delta)) (tool.Result, error) {
		together.Done()
		together.Wait() // blocks unless all three have started
		return tool.Result{Text: "ok"}, nil
	}
	r.model.steps = []step{use(`Read {}`, `Grep {}`, `Glob {}`), say("done")}
	if run := r.work(t.Context()); run.Status != agent.Finished {
		t.Errorf("got %+v", run)
	}
}

func TestCallsThatWriteRunInOrder(t *testing.T) {
	r := newRig(t, false)
	var busy sync.Mutex
	r.machine.call = func(context.Context, conversation.ToolCall, func(remote.Delta)) (tool.Result, error) {
		if !busy.TryLock() {
			t.Error("two calls at once")
			return tool.Result{}, nil
		}
		defer busy.Unlock()
		return tool.Result{Text: "ok"}, nil
	}
	r.model.steps = []step{use(`Read {}`, `Shell {}`, `Write {}`, `Read {}`), say("done")}
	r.work(t.Context())
	if want := []string{"Read", "Shell", "Write", "Read"}; !slices.Equal(r.machine.asked, want) {
		t.Errorf("asked %q", r.machine.asked)
	}
}

func TestCallThatIsNone(t *testing.T) {
	r := newRig(t, false)
	r.model.steps = []step{use(`Frobnicate {}`, `Shell not json`, `bad/name {}`, `__proto__ {}`, `1x {}`), say("done")}
	r.work(t.Context())
	done := bodies[*agent.CallDone](r)
	for i, want := range []string{`there is no tool "Frobnicate"`, "not a JSON object", `there is no tool "unknown"`, `there is no tool "unknown"`, `there is no tool "unknown"`} {
		if !done[i].Error || !strings.Contains(done[i].Text, want) {
			t.Errorf("call %d: %q, want %q", i, done[i].Text, want)
		}
	}
	if len(r.machine.asked) != 0 {
		t.Errorf("the machine was asked %q", r.machine.asked)
	}
}

func TestModelIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, false)
		start := time.Now()
		r.model.steps = []step{
			fail(&model.Error{Reason: model.RateLimited, RetryAfter: 20 * time.Second}),
			fail(&model.Error{Reason: model.Cut}, "one ", "tw"),
			fail(&model.Error{Reason: model.Overloaded}, "one two thr"),
			say("one two ", "three four"),
		}
		run := r.work(context.Background())
		if run.Status != agent.Finished || run.Result != "one two three four" {
			t.Errorf("got %+v", run)
		}
		if r.shown() != "one two three four" {
			t.Errorf("a watcher has seen %q", r.shown())
		}
		if took := time.Since(start); took < 20*time.Second {
			t.Errorf("waited %v, the provider asked for 20s", took)
		}
		if got := len(bodies[*agent.ModelRetry](r)); got != 3 {
			t.Errorf("%d retries in the journal, want 3", got)
		}
		const attempts = 8
		for i, b := range bodies[*agent.ModelRetry](r) {
			if b.Attempt != i+1 || b.Attempts != attempts || b.WaitMS <= 0 {
				t.Errorf("the journal says attempt %d of %d, next in %d ms; want %d of %d", b.Attempt, b.Attempts, b.WaitMS, i+1, attempts)
			}
		}
	})
}

func TestReplyThatGoesAnotherWayIsShownWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, false)
		r.model.steps = []step{fail(&model.Error{Reason: model.Cut}, "I will look"), say("I can see it")}
		r.work(context.Background())
		if want := "I will look\n\nI can see it"; r.shown() != want {
			t.Errorf("shown %q, want %q", r.shown(), want)
		}
	})
}

func TestFailureHasAReasonAndAHintSoon(t *testing.T) {
	for _, c := range []struct {
		name string
		rig  func(*rig)
		code string
	}{
		{"KeyWrong", func(r *rig) {
			r.model.steps = []step{fail(&model.Error{Reason: model.Unauthorized, Status: 401})}
		}, "model_unauthorized"},
		{"Unreachable", func(r *rig) {
			for range 10 {
				r.model.steps = append(r.model.steps, fail(&model.Error{Reason: model.Unreachable}))
			}
		}, "model_unreachable"},
		{"Repository", func(r *rig) { r.err = fault.NotFound("no repository").Named("repo_not_found").Hint("look") }, "repo_not_found"},
		{"Push", func(r *rig) {
			r.model.steps = []step{say("done")}
			r.machine.push = fault.Conflict("taken").Named("branch_taken").Hint("look")
		}, "branch_taken"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, true)
				c.rig(r)
				start := time.Now()
				run := r.work(context.Background())
				if run.Status != agent.Failed || run.Failure == nil || run.Failure.Code != c.code || run.Failure.Hint == "" {
					t.Errorf("got %s, %+v", run.Status, run.Failure)
				}
				if took := time.Since(start); took > 2*time.Second {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

func TestInternalErrorsAreNotShown(t *testing.T) {
	r := newRig(t, false)
	r.err = errors.New("secret path /x")
	if run := r.work(t.Context()); run.Failure == nil || run.Failure.Code != "internal" || strings.Contains(run.Failure.Message, "secret") {
		t.Errorf("got %+v", run.Failure)
	}
}

func TestCancelEndsTheRun(t *testing.T) {
	r := newRig(t, true)
	ctx, cancel := context.WithCancelCause(t.Context())
	r.machine.call = func(ctx context.Context, c conversation.ToolCall, _ func(remote.Delta)) (tool.Result, error) {
		cancel(loop.ErrCancel)
		<-ctx.Done()
		return tool.Failed("aborted"), nil
	}
	r.model.steps = []step{use(`Shell {}`)}
	run := r.work(ctx)
	if run.Status != agent.Cancelled || slices.Contains(r.machine.asked, "commit") {
		t.Errorf("got %s, asked %q", run.Status, r.machine.asked)
	}
}

func TestCancelInTheJournalIsHeeded(t *testing.T) {
	r := newRig(t, false)
	r.record(&agent.CancelAsked{Reason: "user"})
	if run := r.work(t.Context()); run.Status != agent.Cancelled {
		t.Errorf("got %+v", run)
	}
}

func TestStopLeavesTheRunOpen(t *testing.T) {
	r := newRig(t, false)
	ctx, cancel := context.WithCancelCause(t.Context())
	r.model.steps = []step{func(yield func(model.Event, error) bool) {
		cancel(loop.ErrStop)
		yield(model.Event{}, ctx.Err())
	}}
	if err := loop.Run(ctx, r.id, r.config()); !errors.Is(err, loop.ErrStop) {
		t.Errorf("got %v", err)
	}
	run, err := r.store.Run(t.Context(), r.id, r.run)
	if err != nil || run.Status.Ended() {
		t.Errorf("got %s, %v", run.Status, err)
	}
}

func TestGoingOnAfterACrash(t *testing.T) {
	sent := []agent.Body{
		&agent.RunStarted{},
		&agent.TurnReplied{Message: conversation.Message{Role: conversation.Assistant, Blocks: []conversation.Block{
			{Call: &conversation.ToolCall{ID: "call_1", Name: "Shell", Args: json.RawMessage(`{"command":"true"}`)}}}}},
		&agent.CallSent{CallID: "call_1", BootID: "boot-1"},
		&agent.CallDelta{CallID: "call_1", Stdout: "a", Upto: 1},
	}
	t.Run("SameMachineIsAskedAgain", func(t *testing.T) {
		r := newRig(t, false)
		r.record(sent...)
		r.machine.runs("call_1")
		r.machine.call = func(_ context.Context, c conversation.ToolCall, onDelta func(remote.Delta)) (tool.Result, error) {
			onDelta(remote.Delta{Stdout: "a", Seq: 1})
			onDelta(remote.Delta{Stdout: "b", Seq: 2})
			return tool.Result{Text: "ab"}, nil
		}
		r.model.steps = []step{say("done")}
		r.work(t.Context())
		var seen string
		for _, d := range bodies[*agent.CallDelta](r) {
			seen += d.Stdout
		}
		if seen != "ab" || len(bodies[*agent.CallSent](r)) != 1 {
			t.Errorf("a watcher has seen %q, sent %d times", seen, len(bodies[*agent.CallSent](r)))
		}
	})
	t.Run("OtherMachineIsNot", func(t *testing.T) {
		r := newRig(t, false)
		r.record(sent...)
		r.machine.boot = "boot-2"
		r.model.steps = []step{say("done")}
		r.work(t.Context())
		done := bodies[*agent.CallDone](r)
		if len(r.machine.asked) != 0 || len(done) != 1 || !done[0].Error {
			t.Errorf("asked %q, result %+v", r.machine.asked, done)
		}
	})
	t.Run("CancelEndsWhatWasSent", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, false)
			r.record(append(sent, &agent.CancelAsked{Reason: "user"})...)
			r.machine.runs("call_1")
			r.machine.call = func(ctx context.Context, _ conversation.ToolCall, _ func(remote.Delta)) (tool.Result, error) {
				<-ctx.Done()
				return tool.Failed("aborted: %v", context.Cause(ctx)), nil
			}
			run := r.work(context.Background())
			done := bodies[*agent.CallDone](r)
			if run.Status != agent.Cancelled || len(done) != 1 || !strings.Contains(done[0].Text, "cancelled") {
				t.Errorf("%s, results %+v", run.Status, done)
			}
		})
	})
	t.Run("CutReplyIsNotShownTwice", func(t *testing.T) {
		r := newRig(t, false)
		r.record(&agent.RunStarted{}, &agent.TextDelta{Text: "one tw"})
		r.model.steps = []step{say("one ", "two")}
		r.work(t.Context())
		if r.shown() != "one two" {
			t.Errorf("a watcher has seen %q", r.shown())
		}
	})
}

func TestMachineIsLostAndMadeAgain(t *testing.T) {
	r := newRig(t, false)
	r.machine.call = func(context.Context, conversation.ToolCall, func(remote.Delta)) (tool.Result, error) {
		if len(r.machine.asked) == 1 {
			return tool.Result{}, fmt.Errorf("gone: %w", remote.ErrLost)
		}
		return tool.Result{Text: "ok"}, nil
	}
	r.model.steps = []step{use(`Shell {}`), use(`Shell {}`), say("done")}
	run := r.work(t.Context())
	if run.Status != agent.Finished || len(bodies[*agent.MachineLost](r)) != 1 {
		t.Errorf("got %+v", run)
	}
	if done := bodies[*agent.CallDone](r); !done[0].Error || done[1].Error {
		t.Errorf("results %+v", done)
	}
}

func TestMachineThatIsAlwaysLostEndsTheRun(t *testing.T) {
	r := newRig(t, false)
	r.machine.call = func(context.Context, conversation.ToolCall, func(remote.Delta)) (tool.Result, error) {
		return tool.Result{}, remote.ErrLost
	}
	for range 20 {
		r.model.steps = append(r.model.steps, use(`Shell {}`))
	}
	if run := r.work(t.Context()); run.Status != agent.Failed || run.Failure.Code != "machine_lost" {
		t.Errorf("got %s, %+v", run.Status, run.Failure)
	}
}

func TestConversationIsCompactedWhenTheWindowFills(t *testing.T) {
	r := newRig(t, false)
	r.info.ContextWindow = 2000
	r.machine.call = func(context.Context, conversation.ToolCall, func(remote.Delta)) (tool.Result, error) {
		return tool.Result{Text: strings.Repeat("lorem ipsum ", 200)}, nil // about 600 tokens
	}
	r.model.steps = []step{use(`Shell {}`), use(`Shell {}`), use(`Shell {}`), say("the summary"), say("done")}
	run := r.work(t.Context())
	if run.Status != agent.Finished || run.Result != "done" {
		t.Fatalf("got %+v", run)
	}
	if got := bodies[*agent.Compacted](r); len(got) != 1 || !strings.Contains(got[0].Summary, "the summary") || !strings.Contains(got[0].Memory, "mend it") {
		t.Fatalf("compacted %+v", got)
	}
	last := r.model.requests[len(r.model.requests)-1].Messages
	if last[0].Role != conversation.User || !strings.Contains(last[0].PlainText(), "the summary") {
		t.Errorf("the last request begins with %+v", last[0])
	}
	checkConversation(t, last)
}

func TestOverflowIsCompactedAndAskedAgain(t *testing.T) {
	r := newRig(t, false)
	r.info.ContextWindow = 100_000
	r.model.steps = []step{use(`Shell {}`), use(`Shell {}`), fail(&model.Error{Reason: model.TooLong}), say("the summary"), say("done")}
	if run := r.work(t.Context()); run.Status != agent.Finished {
		t.Errorf("got %+v", run)
	}
}

func TestLongReplyGoesOn(t *testing.T) {
	r := newRig(t, false)
	r.model.steps = []step{func(yield func(model.Event, error) bool) {
		yield(model.Event{Done: &model.Reply{Stop: model.StopLength, Message: conversation.Text(conversation.Assistant, "and so")}}, nil)
	}, say("on")}
	if run := r.work(t.Context()); run.Result != "on" {
		t.Errorf("got %+v", run)
	}
}

func TestTodosAreKept(t *testing.T) {
	r := newRig(t, false)
	r.model.steps = []step{
		use(`TodoWrite {"merge":false,"todos":[{"id":"a","content":"look","status":"in_progress"},{"id":"b","content":"mend","status":"pending"}]}`),
		use(`TodoWrite {"merge":true,"todos":[{"id":"a","content":"look","status":"completed"}]}`),
		use(`TodoWrite {"merge":false,"todos":[{"id":"a","content":"look","status":"finished"},{"id":"b","content":"x","status":"pending"}]}`),
		say("done"),
	}
	r.work(t.Context())
	done := bodies[*agent.CallDone](r)
	if want := "[completed] a: look\n[pending] b: mend\n"; done[1].Text != want {
		t.Errorf("got %q, want %q", done[1].Text, want)
	}
	if !done[2].Error || !strings.Contains(done[2].Text, "todos[0].status") {
		t.Errorf("got %q", done[2].Text)
	}
}

// checkConversation fails unless every provider would accept the messages.
func checkConversation(t interface {
	Helper()
	Errorf(format string, args ...any)
}, messages []conversation.Message) {
	t.Helper()
	open := map[string]bool{}
	for i, m := range messages {
		if want := []conversation.Role{conversation.User, conversation.Assistant}[i%2]; m.Role != want {
			t.Errorf("message %d is the %s's", i, m.Role)
		}
		for _, b := range m.Blocks {
			if b.Result != nil {
				if !open[b.Result.CallID] {
					t.Errorf("message %d has a result without its call", i)
				}
				delete(open, b.Result.CallID)
			}
		}
		if len(open) > 0 {
			t.Errorf("message %d leaves calls without results: %v", i, open)
		}
		for _, c := range m.Calls() {
			open[c.ID] = true
		}
	}
}

// A paused loop sends no request to the model and starts no call until it is
// resumed. A cancel request still ends the run.
func TestPause(t *testing.T) {
	t.Run("BeforeARequest", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, false)
			r.record(&agent.Paused{})
			r.model.steps = []step{say("done")}
			ended := make(chan error, 1)
			go func() { ended <- loop.Run(context.Background(), r.id, r.config()) }()
			synctest.Wait()
			if n := len(r.model.requests); n > 0 {
				t.Errorf("%d requests while it was paused", n)
			}
			r.append(store.Append{AgentID: r.id, Events: []agent.Event{{Body: &agent.Resumed{}}}})
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			if n := len(r.model.requests); n != 1 {
				t.Errorf("%d requests after it was resumed", n)
			}
		})
	})
	t.Run("BetweenCalls", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, false)
			call := func(id string) conversation.Block {
				return conversation.Block{Call: &conversation.ToolCall{ID: id, Name: "Shell", Args: json.RawMessage(`{"command":"true"}`)}}
			}
			r.record(&agent.RunStarted{}, &agent.TurnReplied{Message: conversation.Message{
				Role: conversation.Assistant, Blocks: []conversation.Block{call("call_1"), call("call_2")},
			}})
			r.machine.call = func(context.Context, conversation.ToolCall, func(remote.Delta)) (tool.Result, error) {
				if len(bodies[*agent.Paused](r)) == 0 { // the pause comes during the first request
					r.record(&agent.Paused{})
				}
				return tool.Result{Text: "ok"}, nil
			}
			r.model.steps = []step{say("done")}
			ended := make(chan error, 1)
			go func() { ended <- loop.Run(context.Background(), r.id, r.config()) }()
			synctest.Wait()
			if sent, done := len(bodies[*agent.CallSent](r)), len(bodies[*agent.CallDone](r)); sent != 1 || done != 1 {
				t.Errorf("%d calls sent and %d done while it was paused", sent, done)
			}
			r.record(&agent.Resumed{})
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			if done := len(bodies[*agent.CallDone](r)); done != 2 {
				t.Errorf("%d calls done", done)
			}
		})
	})
	t.Run("Cancel", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, false)
			r.record(&agent.Paused{})
			ctx, cancel := context.WithCancelCause(context.Background())
			ended := make(chan error, 1)
			go func() { ended <- loop.Run(ctx, r.id, r.config()) }()
			synctest.Wait()
			cancel(loop.ErrCancel)
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			if run, err := r.store.Run(t.Context(), r.id, r.run); err != nil || run.Status != agent.Cancelled {
				t.Errorf("%v %v", run.Status, err)
			}
		})
	})
}
