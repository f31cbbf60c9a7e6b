// Package loop works a run to its end: it asks the model, works the tool calls
// of its reply, and so on until the model has said its last, and then commits
// and pushes. It holds nothing that the journal does not: every step is chosen
// from the fold of the journal, so that a loop that goes on after a crash is
// the same code as one that was never interrupted.
package loop

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"aloft/internal/agent"
	"aloft/internal/allowance"
	"aloft/internal/control/live"
	"aloft/internal/control/model"
	"aloft/internal/control/store"
	controltool "aloft/internal/control/tool"
	"aloft/internal/conversation"
	"aloft/internal/fault"
	"aloft/internal/mcp"
	"aloft/internal/policy/cage"
	"aloft/internal/redact"
	"aloft/internal/subagent"
	"aloft/internal/tool"
)

// Causes with which the context of a loop may end.
var (
	// ErrStop ends the work and leaves the run open, for this server or another
	// to go on with.
	ErrStop = errors.New("server is stopping")
	// ErrCancel ends the run.
	ErrCancel = errors.New("cancelled")
)

// ErrMachineLost is wrapped by the errors of [Hands] where the machine is
// gone. The loop asks [Config.Machine] again.
var ErrMachineLost = errors.New("machine lost")

// Hands is an agent's machine, as far as a loop uses it. Its methods are safe
// for concurrent use.
type Hands interface {
	// BootID names the present life of the machine.
	BootID() string
	// Call works a tool call, or attaches to it if the machine knows its id.
	// onDelta gets output in order. When ctx ends the call is aborted.
	Call(ctx context.Context, c conversation.ToolCall, onDelta func(Delta)) (tool.Result, time.Duration, error)
	// CallSandboxed is Call in the machine's sandbox, under a policy.
	CallSandboxed(ctx context.Context, c conversation.ToolCall, p cage.Policy, onDelta func(Delta)) (tool.Result, time.Duration, error)
	// Attach waits for a call that the machine knows, like Call, and never starts
	// one: started is false if the machine does not know the id. If ctx has ended
	// already the call is aborted.
	Attach(ctx context.Context, callID string, onDelta func(Delta)) (r tool.Result, took time.Duration, started bool, err error)
	// Known returns the ids of the calls that the machine had been given, and that
	// were not acknowledged, when it was reached.
	Known() []string
	// Drop aborts a call if it runs, and lets the machine forget it.
	Drop(ctx context.Context, callID string) error
	// Enforced reports whether the machine's sandbox can hold its policy.
	Enforced() bool
	// Lacking names the tools that cannot work in the machine.
	Lacking() []string
	// Servers has the machine run the stdio servers among these and no others, and
	// says what they offer. It waits for those that start.
	Servers(ctx context.Context, s *agent.State, servers []mcp.Server, wait time.Duration) ([]mcp.Listing, error)
	// Hooks runs the project's hooks.
	Hooks(ctx context.Context, s *agent.State, call HookCall) (HookOutcome, error)
	// Ack lets the machine forget a result.
	Ack(ctx context.Context, callID string) error
	// Commit commits what is uncommitted in the agent's n-th repository, from 0,
	// with the project's git hooks unless skipHooks.
	Commit(ctx context.Context, n int, message string, skipHooks bool) (Delivered, error)
	// Subagents returns the files in which the repositories define subagents.
	Subagents(ctx context.Context) ([]subagent.File, error)
	// Push pushes the branch of the n-th repository, with the project's git hooks
	// unless skipHooks.
	Push(ctx context.Context, n int, branch string, skipHooks bool) (Delivered, error)
	// Keep copies the files that are to outlive the machine.
	Keep(ctx context.Context) error
}

// Delta is output of a call. Seq counts a call's deltas from 1.
type Delta struct {
	Stdout, Stderr string
	Seq            uint64
}

// Config is what a loop works with.
type Config struct {
	Journal store.Journal
	Owner   string // holds the lease on the agent
	Model   model.Model
	Info    model.Info
	// Named returns the model of an id of the configuration, for subagents; without
	// it they have the agent's own.
	Named func(id string) (model.Model, model.Info, error)
	Fast  string // the id of the model for small work; "" is the agent's own
	// Machine returns the agent's machine, ready; it makes, restarts or boots it
	// where need be. It records what it does.
	Machine func(ctx context.Context, s *agent.State, record Record) (Hands, error)
	// Review decides how calls are treated. Without it all run.
	Review Reviewer
	// Scripts keeps what agents say that later machines install; nil keeps nothing.
	Scripts controltool.Scripts
	// MCP are the MCP servers of agents; without it there are none.
	MCP Servers
	// Allowed is what the team and the server let each run of the agent use; nil is
	// all it wants.
	Allowed func(ctx context.Context, a agent.Agent) (allowance.Amount, error)
	// Privacy reports whether the run is in privacy mode; nil is never.
	Privacy func(ctx context.Context, r agent.Run) (bool, error)
	// Live shows watchers the arguments of calls while the model writes them; nil
	// shows nobody.
	Live *live.Board
	// Secrets returns what is taken out of them; nil is nothing.
	Secrets func(s *agent.State) *redact.Redactor
	// Pulls asks forges for pull requests; nil where there are none.
	Pulls  Pulls
	Logger *slog.Logger
	// JournalQuota bounds, in bytes, what the machine may cause to be journaled in one
	// run; 0 is 1 GiB.
	JournalQuota int64
}

// Record appends events of the run to the journal and to the state.
type Record func(ctx context.Context, bodies ...agent.Body) error

// Loop works one run.
type Loop struct {
	Config
	rec    *recorder
	own    *talk // with the model that the agent has
	place  place
	beside *beside
	// present are the events that the machine has hooks for; nil until it has said.
	present atomic.Pointer[map[string]bool]
	told    told
	offers  offers // of MCP servers
	// sessionEnded says that the hooks of sessionEnd have been run.
	sessionEnded bool
}

// Run works the agent's open run to its end, and returns nil when it has
// ended, in whatever status; where a prompt waits, the next run is open then. A ctx that ends with [ErrCancel] cancels the run;
// with a fault as its cause it ends the run in error, for that reason. Run
// returns an error, and leaves the run open, only when ctx ended with another
// cause, or when the journal can not be written.
func Run(ctx context.Context, agentID string, c Config) error {
	opening, opened := Outliving(ctx) // a run that is cancelled meanwhile ends as any other
	rec, err := newRecorder(opening, c.Journal, agentID, c.Owner, c.Logger)
	opened()
	if err != nil {
		return err
	}
	rec.quota = c.JournalQuota
	l := &Loop{Config: c, rec: rec}
	l.own = &talk{Loop: l, model: c.Model, info: c.Info}
	if l.rec.snapshot().Next() == agent.NextNothing {
		return nil
	}
	if err = l.work(ctx); err != nil {
		return l.end(ctx, err)
	}
	return nil
}

// work works the run, as far as it may.
func (l *Loop) work(ctx context.Context) error {
	if l.rec.snapshot().Run.Status == agent.Creating {
		if err := l.begin(ctx); err != nil {
			return err
		}
	}
	limited, stop := l.limited(ctx)
	defer stop()
	l.beside = newBeside(limited)
	err := l.turns(l.beside.ctx, ctx)
	up := context.Cause(l.beside.ctx)
	l.beside.stop(cmp.Or(up, err))
	if l.rec.closed || ctx.Err() != nil {
		return err
	}
	if up != nil {
		err = up
	}
	if s, ok := errors.AsType[*spent](err); ok {
		return l.expire(ctx, s)
	}
	return err
}

// turns works turn by turn, as long as ctx lets it, and ends the run, for which it
// has until whole ends.
func (l *Loop) turns(ctx, whole context.Context) error {
	defer func() { _ = l.own.acknowledged() }() // where it matters, step has returned it
	// A repository that cannot be had is known before a model is paid.
	if err := l.own.reach(ctx); err != nil {
		return err
	}
	if l.rec.snapshot().Agent.Env.Preset == agent.SetUp {
		return l.conclude(ctx, "completed", &agent.RunEnded{Status: agent.Finished, Result: "The machine is ready to be set up."})
	}
	if err := l.submit(ctx); err != nil && !errors.Is(err, ErrMachineLost) {
		return err
	}
	if err := l.findSubagents(ctx); err != nil {
		return err
	}
	for {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := l.hold(ctx); err != nil {
			return err
		}
		s := l.rec.snapshot()
		if s.Cancel != "" {
			return errors.Join(l.abandon(ctx), ErrCancel)
		}
		if s.Next() == agent.NextNothing {
			return nil
		}
		l.workBeside()
		said, err := l.own.step(ctx)
		if said {
			switch s := l.rec.snapshot(); {
			case len(s.Beside()) > 0:
				err = l.beside.wait(ctx)
			case s.Next() == agent.NextFinish: // and nothing has come back since it was asked
				if err = l.finish(whole); l.rec.closed {
					return err
				}
			}
		}
		if errors.Is(err, ErrMachineLost) {
			err = l.own.lost(ctx, err)
		}
		if err != nil {
			return err
		}
	}
}

// hold waits as long as the agent is paused. A person may pause it at any time;
// what is under way then is finished first.
func (l *Loop) hold(ctx context.Context) error {
	for {
		paused, head, err := l.rec.news(ctx)
		if err != nil || !paused {
			return err
		}
		if err := l.rec.wait(ctx, head); err != nil {
			return err
		}
	}
}

func isFault(err error) bool {
	_, ok := errors.AsType[*fault.Error](err)
	return ok
}

// failure says what a user can make of err.
func failure(err error) *agent.Failure {
	if m, ok := errors.AsType[*model.Error](err); ok {
		return &agent.Failure{Code: string(m.Reason), Message: m.Error(), Hint: modelHints[m.Reason]}
	}
	f := fault.Of(err)
	return &agent.Failure{Code: f.Code, Message: f.Message, Hint: f.Advice}
}

var modelHints = map[model.Reason]string{
	model.Unauthorized: "check api_key or api_key_env of the model in the server's configuration",
	model.Unreachable:  "check base_url of the model in the server's configuration, and that its server runs",
	model.NotFound:     "check name of the model in the server's configuration",
	model.RateLimited:  "send a follow-up later, or raise the provider's limit",
	model.Overloaded:   "send a follow-up later, or use another model",
	model.Cut:          "send a follow-up to go on",
	model.TooLong:      "start a new agent, or use a model with a larger context window",
	model.BadRequest:   "the provider refused the conversation; its words say why",
}
