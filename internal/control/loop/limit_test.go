package loop_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"aloft/internal/agent"
	"aloft/internal/allowance"
	"aloft/internal/control/loop"
	"aloft/internal/control/loop/remote"
	"aloft/internal/control/model"
	"aloft/internal/conversation"
	"aloft/internal/fault"
	"aloft/internal/policy/permit"
	"aloft/internal/tool"
)

// spend is like use, but each reply uses 15 tokens.
func spend(calls ...string) step {
	return func(yield func(model.Event, error) bool) {
		use(calls...)(func(e model.Event, err error) bool {
			e.Done.Usage = conversation.Usage{Input: 10, Output: 5}
			return yield(e, err)
		})
	}
}

// follow starts another run.
func (r *rig) follow(words string) {
	r.run = agent.NewRunID()
	r.record(&agent.RunCreated{Prompt: conversation.Text(conversation.User, words)})
}

// dollar is a price of a dollar per token.
func dollar() *model.Price {
	million := 1e6
	return &model.Price{Input: &million, Output: &million, CacheRead: &million, CacheWrite: &million}
}

// TestLimits checks which limits end a run early, and after how many requests.
func TestLimits(t *testing.T) {
	shell := `Shell {"command":"make"}`
	task := `Task {"description":"look","prompt":"look","subagent_type":"explore"}`
	for _, c := range []struct {
		name     string
		limit    allowance.Amount
		steps    []step
		requests int // error code of the first run
		code     string
		says     string
	}{
		{"Turns", allowance.Amount{Turns: 2}, []step{spend(shell), spend(shell), spend(shell)}, 2, "limit_turns", "used 2 turns; its limit is 2 turns"},
		{"Tokens", allowance.Amount{Tokens: 16}, []step{spend(shell), spend(shell), spend(shell)}, 2, "limit_tokens", "used 30 tokens"},
		{"TokensOfASubagent", allowance.Amount{Tokens: 40}, []step{spend(task), spend(`Read {"path":"a"}`), spend(`Read {"path":"b"}`), say("x")}, 3, "limit_tokens", "used 45 tokens"},
		{"TurnsAreTheAgentsOwn", allowance.Amount{Turns: 2}, []step{use(task), use(`Read {"path":"a"}`), use(`Read {"path":"b"}`), say("x"), use(shell)}, 5, "limit_turns", "2 turns"},
		{"Money", allowance.Amount{Cost: 20 * allowance.Dollar}, []step{spend(shell), spend(shell)}, 2, "limit_cost", "used $30.00; its limit is $20.00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, true)
			r.info.Price = dollar()
			r.allowed = c.limit
			r.model.steps = c.steps[:c.requests:c.requests]
			run := r.work(t.Context())
			if run.Status != agent.Expired || run.Failure == nil || run.Failure.Code != c.code || !strings.Contains(run.Failure.Message, c.says) || !strings.Contains(run.Failure.Hint, "follow-up") {
				t.Fatalf("got %+v, %+v", run, run.Failure)
			}
			if n := len(r.model.requests); n != c.requests || !slices.Contains(r.machine.asked, "push aloft/test-0000") {
				t.Errorf("%d requests; asked %q", n, r.machine.asked)
			}
			r.follow("go on") // the second run has its own limits
			r.model.steps = append(r.model.steps, say("done"))
			if run := r.work(t.Context()); run.Status != agent.Finished || run.Result != "done" {
				t.Errorf("the next is %+v", run)
			}
			for _, req := range r.model.requests {
				checkConversation(t, req.Messages)
			}
		})
	}
}

// A run's limit is the lowest of its owner's, the team's and the server's
// limits at its beginning. A restarted server does not raise it.
func TestALimitOutlastsTheServer(t *testing.T) {
	r := newRig(t, true)
	r.record(&agent.RunEnded{Status: agent.Cancelled})
	r.run = agent.NewRunID()
	r.record(&agent.RunCreated{Prompt: conversation.Text(conversation.User, "again"), Limit: &allowance.Amount{Turns: 5}})
	r.allowed = allowance.Amount{Turns: 2, Tokens: 1000}
	ctx, stop := context.WithCancelCause(t.Context())
	r.model.steps = []step{use(`Shell {"command":"make"}`), use(`Shell {"command":"make"}`), say("too late")}
	r.machine.call = func(context.Context, conversation.ToolCall, func(remote.Delta)) (tool.Result, error) {
		stop(loop.ErrStop)
		return tool.Result{Text: "ok"}, nil
	}
	if err := loop.Run(ctx, r.id, r.config()); err == nil {
		t.Fatal("the first server did not end")
	}
	r.allowed = allowance.Amount{Turns: 100}
	if run := r.work(t.Context()); run.Status != agent.Expired || run.Turns != 2 || run.Limit != (allowance.Amount{Turns: 2, Tokens: 1000}) {
		t.Errorf("got %+v", run)
	}
}

// The time limit ends running calls, but the time during which a person is
// asked does not count.
func TestLimitOfTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, true)
		r.reviewed(permit.Allowlist, `{"terminalAllowlist":["sleep"]}`)
		r.allowed = allowance.Amount{Seconds: 60}
		r.machine.call = func(ctx context.Context, c conversation.ToolCall, _ func(remote.Delta)) (tool.Result, error) {
			if strings.Contains(string(c.Args), "sleep") {
				<-ctx.Done()
				if !loop.Aborts(context.Cause(ctx)) {
					t.Errorf("the call ended since %v", context.Cause(ctx))
				}
			}
			return tool.Result{Text: "ok"}, nil
		}
		r.model.steps = []step{use(`Shell {"command":"mv a b"}`), use(`Shell {"command":"sleep 1000"}`)}
		ended := make(chan error, 1)
		go func() { ended <- loop.Run(context.Background(), r.id, r.config()) }()
		synctest.Wait()
		<-time.After(time.Hour) // nobody answers
		if err := r.say(agent.ApprovalAnswered{Decision: agent.AllowOnce}); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		run, err := r.store.Run(t.Context(), r.id, r.run)
		if err != nil {
			t.Fatal(err)
		}
		if used := run.Used(time.Now()); run.Status != agent.Expired || run.Failure.Code != "limit_time" || used.Seconds != 60 || run.Failure.Message != "the run has used 1m; its limit is 1m" {
			t.Errorf("got %+v %+v, used %+v", run, run.Failure, used)
		}
		if !slices.Contains(r.machine.asked, "push aloft/test-0000") {
			t.Errorf("asked %q", r.machine.asked)
		}
	})
}

func TestMoneyNeedsAPrice(t *testing.T) {
	half := dollar()
	half.CacheRead = nil
	for _, price := range []*model.Price{nil, half} {
		r := newRig(t, false)
		r.info.Price = price
		r.allowed = allowance.Amount{Cost: allowance.Dollar}
		r.model.steps = []step{say("done")}
		run := r.work(t.Context())
		if run.Status != agent.Failed || run.Failure.Code != "model_unpriced" || run.Failure.Hint == "" || len(r.model.requests) != 0 {
			t.Errorf("got %+v %+v after %d requests", run, run.Failure, len(r.model.requests))
		}
	}
}

// If a push fails when a limit is reached, the failure is reported and the run
// still ends.
func TestLimitAndAPushThatFails(t *testing.T) {
	r := newRig(t, true)
	r.allowed = allowance.Amount{Turns: 1}
	r.machine.push = fault.Denied("the forge says no")
	r.model.steps = []step{use(`Shell {"command":"make"}`)}
	if run := r.work(t.Context()); run.Status != agent.Expired || !strings.Contains(run.Failure.Message, "not pushed: the forge says no") {
		t.Errorf("got %+v %+v", run, run.Failure)
	}
}
