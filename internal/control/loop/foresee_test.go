package loop_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"aloft/internal/agent"
	"aloft/internal/control/loop"
	"aloft/internal/control/loop/journal"
	"aloft/internal/control/loop/remote"
	"aloft/internal/control/model"
	"aloft/internal/control/store"
	"aloft/internal/conversation"
	"aloft/internal/hook"
	"aloft/internal/policy/permit"
	"aloft/internal/tool"
)

// appends is a journal that records the kinds of the events in each append.
type appends struct {
	store.Journal
	mu   sync.Mutex
	seen []string
}

func (a *appends) Append(ctx context.Context, in store.Append) ([]agent.Event, error) {
	var kinds []string
	for _, e := range in.Events {
		kinds = append(kinds, e.Inner().Kind())
	}
	a.mu.Lock()
	a.seen = append(a.seen, strings.Join(kinds, " "))
	a.mu.Unlock()
	return a.Journal.Append(ctx, in)
}

// tellThenUse is a model reply that streams text, then runs the function
// meanwhile, and ends with the calls.
func tellThenUse(meanwhile func(), calls ...string) step {
	return func(yield func(model.Event, error) bool) {
		yield(model.Event{Text: "I look."}, nil)
		meanwhile()
		use(calls...)(yield)
	}
}

// TestStepIsOneAppend checks which events share one append: a reply, the
// decisions about its calls, and the note that they were sent, if no person has
// to be asked.
func TestStepIsOneAppend(t *testing.T) {
	both := []string{"turn.replied call.judged call.sent", "call.done", "text.delta turn.replied"}
	for _, c := range []struct {
		name  string
		calls []string
		rig   func(*rig)
		want  []string
	}{
		{"Run", []string{`Shell {"command":"true"}`}, nil, both},
		{"Sandboxed", []string{`Shell {"command":"curl x"}`}, func(r *rig) { r.machine.enforced = true; r.reviewed(permit.AutoReview, "") }, both},
		{"OfTheControlPlane", []string{`TodoWrite {"merge":false,"todos":[]}`}, nil, []string{"turn.replied call.sent", "call.done", "text.delta turn.replied"}},
		{"SideBySide", []string{`Read {"path":"a"}`, `Read {"path":"b"}`}, nil,
			[]string{"turn.replied call.judged call.sent call.judged call.sent", "call.done", "call.done", "text.delta turn.replied"}},
		{"OneAfterAnother", []string{`Shell {"command":"a"}`, `Shell {"command":"b"}`}, nil,
			[]string{"turn.replied call.judged call.sent", "call.done", "call.judged call.sent", "call.done", "text.delta turn.replied"}},
		{"WithOutput", []string{`Shell {"command":"a"}`}, func(r *rig) {
			r.machine.call = func(_ context.Context, _ conversation.ToolCall, onDelta func(remote.Delta)) (tool.Result, error) {
				onDelta(remote.Delta{Stdout: "x", Seq: 1})
				return tool.Result{Text: "x"}, nil
			}
		}, []string{"turn.replied call.judged call.sent", "call.delta call.done", "text.delta turn.replied"}},
		{"APersonIsAsked", []string{`Shell {"command":"mv a b"}`}, func(r *rig) {
			r.reviewed(permit.Allowlist, "")
			r.answer(agent.AllowOnce, "")
		}, []string{"turn.replied", "approval.asked", "call.judged call.sent", "call.done", "text.delta turn.replied"}},
		{"AHookIsThere", []string{`Shell {"command":"true"}`}, func(r *rig) {
			r.machine.hooks = func(hook.Call) hook.Outcome { return hook.Outcome{Present: []hook.Event{"preToolUse"}} }
		}, []string{"turn.replied", "call.judged call.sent", "call.done", "text.delta turn.replied"}},
		{"AHookForbids", []string{`Shell {"command":"true"}`}, func(r *rig) {
			r.machine.hooks = func(call hook.Call) hook.Outcome {
				if call.Events[0].Event != "preToolUse" {
					return hook.Outcome{}
				}
				return hook.Outcome{Permission: "deny", UserMessage: "no"}
			}
		}, []string{"turn.replied", "call.judged", "call.done", "text.delta turn.replied"}},
		{"NoSuchTool", []string{`Nothing {}`}, nil, []string{"turn.replied", "call.done", "text.delta turn.replied"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, false)
			if c.rig != nil {
				c.rig(r)
			}
			r.model.steps = []step{use(c.calls...), say("done")}
			journal := &appends{Journal: r.store}
			config := r.config()
			config.Journal = journal
			if err := loop.Run(t.Context(), r.id, config); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(slices.Concat([]string{"run.started"}, c.want, []string{"run.ended"}), journal.seen); d != "" {
				t.Error(d)
			}
		})
	}
}

// If a person acts during the model's reply, the action takes effect before the
// reply's calls are sent.
func TestBetweenReplyAndCalls(t *testing.T) {
	// If a reply has text, the loop appends the text before the end of the reply.
	// With that append it reads events that others have appended.
	words := func(meanwhile func()) step { return tellThenUse(meanwhile, `Shell {"command":"true"}`) }
	silent := func(meanwhile func()) step {
		return func(yield func(model.Event, error) bool) {
			meanwhile()
			use(`Shell {"command":"true"}`)(yield)
		}
	}
	for _, c := range []struct {
		name  string
		body  agent.Body
		step  func(meanwhile func()) step
		shown string
		want  agent.Status
	}{
		{"Pause", &agent.Paused{}, words, "I look.", agent.Running},
		{"PauseOfASilentReply", &agent.Paused{}, silent, "", agent.Running},
		{"Cancel", &agent.CancelAsked{Reason: "enough"}, words, "I look.", agent.Cancelled},
		{"CancelOfASilentReply", &agent.CancelAsked{Reason: "enough"}, silent, "", agent.Cancelled},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, false)
				r.model.steps = []step{c.step(func() { r.record(c.body) }), say("done")}
				ctx, stop := context.WithCancelCause(context.Background())
				ended := make(chan error, 1)
				go func() { ended <- loop.Run(ctx, r.id, r.config()) }()
				synctest.Wait()
				run, err := r.store.Run(t.Context(), r.id, r.run)
				if err != nil || run.Status != c.want {
					t.Errorf("the run is %s, %v", run.Status, err)
				}
				if n := len(bodies[*agent.CallSent](r)); n != 0 {
					t.Errorf("%d calls were sent", n)
				}
				if len(bodies[*agent.TurnReplied](r)) != 1 || r.shown() != c.shown {
					t.Errorf("the reply is not in the journal; watchers have seen %q", r.shown())
				}
				stop(loop.ErrStop)
				<-ended
			})
		})
	}
}

// If the machine is lost before it has confirmed a result, the loss is
// journaled once, and no model request is repeated.
func TestMachineIsLostBeforeItHasAcknowledged(t *testing.T) {
	for _, c := range []struct {
		name  string
		calls []string
		call  func(context.Context, conversation.ToolCall, func(remote.Delta)) (tool.Result, error)
		boots []string // the boots of the machine that got calls
	}{
		{"BetweenTwoTurns", []string{`Shell {"command":"a"}`}, nil, []string{"boot-1", "boot-2"}},
		{"BesideAnotherCall", []string{`Read {"path":"a"}`, `Read {"path":"lost"}`}, func(ctx context.Context, c conversation.ToolCall, _ func(remote.Delta)) (tool.Result, error) {
			if strings.Contains(string(c.Args), "lost") {
				return tool.Result{}, remote.ErrLost
			}
			return tool.Result{Text: "ok"}, nil
		}, []string{"boot-1", "boot-1", "boot-2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, false)
				r.machine.call = c.call
				machines := []remote.Machine{&deaf{r.machine}, &fakeMachine{boot: "boot-2"}}
				r.model.steps = []step{use(c.calls...), slowly(use(`Shell {"command":"b"}`)), say("done")}
				config := r.config()
				config.Machine = func(context.Context, *agent.State, journal.Record) (remote.Machine, error) {
					if len(machines) == 0 {
						return nil, errors.New("a third machine is asked for")
					}
					next := machines[0]
					machines = machines[1:]
					return next, nil
				}
				if err := loop.Run(t.Context(), r.id, config); err != nil {
					t.Fatal(err)
				}
				if n := len(bodies[*agent.MachineLost](r)); n != 1 {
					t.Errorf("the machine is lost %d times", n)
				}
				if len(r.model.requests) != 3 {
					t.Errorf("%d requests", len(r.model.requests))
				}
				var boots []string
				for _, sent := range bodies[*agent.CallSent](r) {
					boots = append(boots, sent.BootID)
				}
				if d := cmp.Diff(c.boots, boots); d != "" {
					t.Error(d)
				}
			})
		})
	}
}

// slowly delays the step until all other goroutines of the synctest bubble are
// blocked.
func slowly(s step) step {
	return func(yield func(model.Event, error) bool) {
		time.Sleep(time.Second) // fake time
		s(yield)
	}
}

// The calls of a reply do not wait for the acknowledgement of earlier results.
// The end of the run does.
func TestAcknowledgementIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, false)
		second := make(chan struct{})
		r.machine.call = func(_ context.Context, c conversation.ToolCall, _ func(remote.Delta)) (tool.Result, error) {
			if strings.Contains(string(c.Args), "second") {
				close(second)
			}
			return tool.Result{Text: "ok"}, nil
		}
		r.model.steps = []step{use(`Shell {"command":"first"}`), use(`Shell {"command":"second"}`), say("done")}
		config := r.config()
		config.Machine = func(context.Context, *agent.State, journal.Record) (remote.Machine, error) {
			return &busy{r.machine, second}, nil
		}
		if err := loop.Run(t.Context(), r.id, config); err != nil {
			t.Fatal(err)
		}
		if len(r.machine.acked) != 2 {
			t.Errorf("acknowledged %q", r.machine.acked)
		}
	})
}

// busy is a machine that replies to acknowledgements late.
type busy struct {
	*fakeMachine
	until <-chan struct{}
}

func (b *busy) Ack(ctx context.Context, id string) error {
	<-b.until
	return b.fakeMachine.Ack(ctx, id)
}

// deaf is a machine that is lost before an acknowledgement arrives.
type deaf struct{ *fakeMachine }

func (*deaf) Ack(context.Context, string) error { return remote.ErrLost }
