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

	"aloft/internal/agent"
	"aloft/internal/allowance"
	"aloft/internal/control/live"
	"aloft/internal/control/loop/journal"
	"aloft/internal/control/loop/remote"
	"aloft/internal/control/loop/rulebook"
	"aloft/internal/control/model"
	"aloft/internal/control/store"
	controltool "aloft/internal/control/tool"
	"aloft/internal/fault"
	"aloft/internal/redact"
	"aloft/internal/rule"
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
	Machine func(ctx context.Context, s *agent.State, record journal.Record) (remote.Machine, error)
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
	rules   rulebook.Book
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
	l := &Loop{Config: c, rec: rec, rules: rulebook.Book{Own: c.Rules, Log: c.Logger}}
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
	if err := l.submit(ctx); err != nil && !errors.Is(err, remote.ErrLost) {
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
		if errors.Is(err, remote.ErrLost) {
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
