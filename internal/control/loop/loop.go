// Package loop works a run to its end. It asks the model, runs the tool calls
// of its reply, and repeats until a reply has no calls; then it commits and
// pushes. All its state comes from the journal: each step is chosen from the
// folded journal, so the same code starts a run and continues one after a
// crash.
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
	"aloft/internal/control/loop/journal"
	"aloft/internal/control/model"
	"aloft/internal/control/store"
	controltool "aloft/internal/control/tool"
	"aloft/internal/conversation"
	"aloft/internal/fault"
	"aloft/internal/mcp"
	"aloft/internal/policy/sandbox"
	"aloft/internal/redact"
	"aloft/internal/rule"
	"aloft/internal/subagent"
	"aloft/internal/tool"
)

// Causes for which a loop's context may end.
var (
	// ErrStop stops the work and leaves the run open, so that this or another
	// server can continue it.
	ErrStop = errors.New("server is stopping")
	// ErrCancel ends the run.
	ErrCancel = errors.New("cancelled")
)

// ErrMachineLost is wrapped by errors of [Machine] if the machine is gone. The
// loop then calls [Config.Machine] again.
var ErrMachineLost = errors.New("machine lost")

// ErrHooked is wrapped by errors of [Machine] for a call that was sent as
// unhooked, and was not started because the machine has hooks.
var ErrHooked = errors.New("the machine has hooks")

// Machine is an agent's machine, as far as a loop uses it. Its methods are safe
// for concurrent use.
type Machine interface {
	// BootID identifies the current boot of the machine.
	BootID() string
	// Call runs a tool call, or attaches to it if the machine knows its id.
	// onDelta receives the output in order. When ctx ends, the call is aborted.
	Call(ctx context.Context, c conversation.ToolCall, onDelta func(Delta)) (tool.Result, time.Duration, error)
	// It returns [ErrHooked] if the call is unhooked and the machine has hooks.
	// CallSandboxed is like Call, but runs the call in the machine's sandbox
	// with the given policy. A call with a Guard runs there only if the machine
	// finds a reason to.
	CallSandboxed(ctx context.Context, c conversation.ToolCall, p sandbox.Policy, onDelta func(Delta)) (tool.Result, time.Duration, error)
	// Attach waits for a call that the machine knows, like Call, but never
	// starts one: started is false if the machine does not know the id. If ctx
	// has already ended, the call is aborted.
	Attach(ctx context.Context, callID string, onDelta func(Delta)) (r tool.Result, took time.Duration, started bool, err error)
	// Known returns the ids of the calls that the machine had received, and
	// whose results were not acknowledged, at the time of connecting.
	Known() []string
	// Drop aborts a call if it is running, and makes the machine forget it.
	Drop(ctx context.Context, callID string) error
	// Enforced reports whether the machine's sandbox can enforce its policy.
	Enforced() bool
	// Lacking returns the names of the tools that cannot work in the machine.
	Lacking() []string
	// Servers makes the machine run exactly the stdio servers among these, and
	// returns what they offer. It waits up to the given time for servers that
	// are starting.
	Servers(ctx context.Context, s *agent.State, servers []mcp.Server, wait time.Duration) ([]mcp.Listing, error)
	// Unhooked reports whether calls may be sent as unhooked: neither the team
	// nor the agent's owner has hooks, and the machine checks for its own.
	Unhooked(ctx context.Context, a agent.Agent) (bool, error)
	// Hooks runs the project's hooks.
	Hooks(ctx context.Context, s *agent.State, call HookCall) (HookOutcome, error)
	// Ack makes the machine forget a result.
	Ack(ctx context.Context, callID string) error
	// Commit commits the uncommitted changes in the agent's n-th repository,
	// from 0. It runs the project's git hooks unless skipHooks is true.
	Commit(ctx context.Context, n int, message string, skipHooks bool) (Delivered, error)
	// Subagents returns the files in which the repositories define subagents.
	Subagents(ctx context.Context) ([]subagent.File, error)
	// Rules reads the rules of folders of the repositories.
	Rules(ctx context.Context, folders []rule.Folder) (rule.Set, error)
	// Push pushes the branch of the n-th repository. It runs the project's git
	// hooks unless skipHooks is true.
	Push(ctx context.Context, n int, branch string, skipHooks bool) (Delivered, error)
	// Keep copies the machine's artifacts to permanent storage.
	Keep(ctx context.Context) error
}

// Delta is a piece of a call's output. Seq counts the pieces of a call from 1.
type Delta struct {
	Stdout, Stderr string
	Seq            uint64
}

// Config is what a loop needs.
type Config struct {
	Journal store.Journal
	Owner   string // holds the lease on the agent
	Model   model.Model
	Info    model.Info
	// Named returns the configured model with the given id, for subagents. If
	// it is nil, subagents use the agent's model.
	Named func(id string) (model.Model, model.Info, error)
	Fast  string // id of the model for small tasks; "" is the agent's model
	// Machine returns the agent's machine, ready for calls. It creates,
	// restarts or boots the machine if necessary, and records that.
	Machine func(ctx context.Context, s *agent.State, record journal.Record) (Machine, error)
	// Review decides which calls may run. If it is nil, all may.
	Review Reviewer
	// Scripts stores install scripts that agents propose for later machines;
	// nil stores none.
	Scripts controltool.Scripts
	// MCP provides the agents' MCP servers; nil means there are none.
	MCP Servers
	// Allowed returns the limits that the team and the server set for each run
	// of the agent. If it is nil, there are none.
	Allowed func(ctx context.Context, a agent.Agent) (allowance.Amount, error)
	// Privacy reports whether the run is in privacy mode. If it is nil, no run
	// is.
	Privacy func(ctx context.Context, r agent.Run) (bool, error)
	// Live shows clients the arguments of calls while the model writes them;
	// nil shows none.
	Live *live.Board
	// Secrets returns what to redact from those arguments; nil redacts nothing.
	Secrets func(s *agent.State) *redact.Redactor
	// Rules returns the rules and skills of the team and of the agent's owner. If
	// it is nil, there are none.
	Rules func(ctx context.Context, a agent.Agent) ([]rule.Rule, error)
	// Checks configures the checks of runs.
	Checks Checks
	// Repeats is how often an identical call may have an identical result, with
	// no change in between, before the model is told. The run ends when it
	// happens so often again. 0 means any number.
	Repeats int
	// Diff returns at most limit bytes of what the agent has pushed in all
	// repositories. If it is nil, goals are judged without a diff.
	Diff func(ctx context.Context, s *agent.State, limit int) (diff string, truncated bool, err error)
	// Patches returns what another agent of the same owner has pushed to the
	// agent's repositories. Its faults are for the model. If it is nil, there are
	// no other agents.
	Patches func(ctx context.Context, s *agent.State, otherID string) ([]tool.Patch, error)
	// Pulls opens pull requests; nil if there is no forge.
	Pulls Pulls
	// Shortages returns what the agent's machine has run out of, and has not been
	// journaled in s: [agent.MachineOutOfMemory] and [agent.MachineDiskFull]. If it
	// is nil, nothing is reported.
	Shortages func(ctx context.Context, s *agent.State) []Shortage
	// Web searches the web; nil if no provider is configured.
	Web Web
	// Images generates images; nil if no model for images is configured.
	Images    model.ImageModel
	ImageInfo model.ImageInfo
	Logger    *slog.Logger
	// JournalQuota is the most that events caused by the machine may take in
	// the journal, per run and in bytes; 0 means 1 GiB.
	JournalQuota int64
}

// Loop works one run.
type Loop struct {
	Config
	rec        *journal.Recorder
	own        *thread // the agent's own conversation
	slot       machineSlot
	background *background
	// present lists the events for which the machine has hooks. It is nil until
	// the machine has reported them.
	present atomic.Pointer[map[string]bool]
	told    transcriptProgress
	offers  offers // of MCP servers
	read    readFolders
	heard   heard
	short   shortages
	// sessionEnded is true once the sessionEnd hooks have run.
	sessionEnded bool
}

// Run works the agent's open run to its end. It returns nil when the run has
// ended, whatever its status; if a prompt was queued, the next run is open
// then. If ctx ends with [ErrCancel], the run is cancelled. If ctx ends with a
// fault as its cause, the run ends with that error. Run returns an error and
// leaves the run open only if ctx ended with another cause, or if the journal
// cannot be written.
func Run(ctx context.Context, agentID string, c Config) error {
	opening, opened := journal.Outliving(ctx) // a run that is cancelled meanwhile ends like any other
	rec, err := journal.Open(opening, c.Journal, agentID, c.Owner, c.JournalQuota, c.Logger)
	opened()
	if err != nil {
		return err
	}
	l := &Loop{Config: c, rec: rec}
	l.own = &thread{Loop: l, answerer: answerer{model: c.Model, info: c.Info}}
	if l.rec.Snapshot().Next() == agent.NextNothing {
		return nil
	}
	if err = l.work(ctx); err != nil {
		return l.end(ctx, err)
	}
	return nil
}

// work works the run within its limits.
func (l *Loop) work(ctx context.Context) error {
	if l.rec.Snapshot().Run.Status == agent.Creating {
		if err := l.begin(ctx); err != nil {
			return err
		}
	}
	limited, stop := l.limited(ctx)
	defer stop()
	l.background = newBackground(limited)
	err := l.turns(l.background.ctx, ctx)
	up := context.Cause(l.background.ctx)
	l.background.stop(cmp.Or(up, err))
	if l.rec.Closed() || ctx.Err() != nil {
		return err
	}
	if up != nil {
		err = up
	}
	if s, ok := errors.AsType[*limitError](err); ok {
		return l.expire(ctx, agent.Expired, s.failure())
	}
	if err != nil && fault.Of(err).Code == repeatsCall {
		return l.expire(ctx, agent.Failed, failure(err))
	}
	return err
}

// turns works turn by turn until ctx ends, then ends the run, for which it has
// until whole ends.
func (l *Loop) turns(ctx, whole context.Context) error {
	defer func() { _ = l.own.acknowledged() }() // step has returned the errors that matter
	// Find out whether the repositories are reachable before paying a model.
	if err := l.own.reach(ctx); err != nil {
		return err
	}
	if l.rec.Snapshot().Agent.Env.Preset == agent.SetUp {
		return l.conclude(ctx, "completed", &agent.RunEnded{Status: agent.Finished, Result: "The machine is ready to be set up."})
	}
	if err := l.submit(ctx); err != nil && !errors.Is(err, ErrMachineLost) {
		return err
	}
	if err := l.findSubagents(ctx); err != nil {
		return err
	}
	if err := l.findRules(ctx); err != nil {
		return err
	}
	titling, stopTitle := context.WithCancel(ctx)
	titled := l.startTitle(titling)
	defer func() {
		stopTitle()
		titled()
	}()
	for {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := l.holdWhilePaused(ctx); err != nil {
			return err
		}
		s := l.rec.Snapshot()
		if s.Cancel != "" {
			return errors.Join(l.abandon(ctx), ErrCancel)
		}
		if s.Next() == agent.NextNothing {
			return nil
		}
		l.startBackground()
		said, err := l.own.step(ctx)
		if said {
			switch s := l.rec.Snapshot(); {
			case len(s.Background()) > 0:
				err = l.background.wait(ctx)
			case s.Next() == agent.NextFinish: // and no background subagent has ended since the model was asked
				titled() // its event must precede the end of the run
				if err = l.finish(ctx, whole); l.rec.Closed() {
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

// holdWhilePaused waits while the agent is paused. A person may pause it at any time;
// calls that are already running finish first.
func (l *Loop) holdWhilePaused(ctx context.Context) error {
	for {
		paused, head, err := l.rec.News(ctx)
		if err != nil || !paused {
			return err
		}
		if err := l.rec.Wait(ctx, head); err != nil {
			return err
		}
	}
}

func isFault(err error) bool {
	_, ok := errors.AsType[*fault.Error](err)
	return ok
}

// failure converts err to the form that users see.
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
	model.Cut:          "send a follow-up to continue",
	model.TooLong:      "start a new agent, or use a model with a larger context window",
	model.BadRequest:   "the provider rejected the conversation; its message says why",
}
