// Package loop works a run to its end. It asks the model, runs the tool calls
// of its reply, and repeats until a reply has no calls; then it commits and
// pushes. The loop derives all state from the journal, and chooses each step by
// that state, so the same code starts a run and continues one after a crash.
package loop

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"

	"aloft/internal/agent"
	"aloft/internal/control/loop/journal"
	"aloft/internal/control/loop/memo"
	"aloft/internal/control/loop/offer"
	"aloft/internal/control/loop/proof"
	"aloft/internal/control/loop/pullrequest"
	"aloft/internal/control/loop/remote"
	"aloft/internal/control/loop/rulebook"
	"aloft/internal/control/loop/transcript"
	"aloft/internal/control/model"
	"aloft/internal/fault"
	"aloft/internal/hook"
)

// Causes for which a loop's context may end.
var (
	// ErrStop stops the work and leaves the run open, so that this or another
	// server can continue it.
	ErrStop = errors.New("server is stopping")
	// ErrCancel ends the run.
	ErrCancel = errors.New("cancelled")
)

// Loop works one run.
type Loop struct {
	Config
	rec        *journal.Recorder
	own        *thread // the agent's own conversation
	slot       machineSlot
	background *background
	// present lists the events for which the machine has hooks. It is nil until
	// the machine has reported them.
	present  atomic.Pointer[map[hook.Event]bool]
	progress transcript.Progress
	offers   offer.Offers // state of the run's MCP servers
	rules    rulebook.Book
	requests pullrequest.Requests
	short    shortages
	memo     memo.Desk
	// sessionEnded is true once the sessionEnd hooks have run.
	sessionEnded bool
}

// Run works the agent's open run to its end. It returns nil when the run has
// ended, regardless of its status; if a prompt was queued, the next run is then
// open. If ctx ends with [ErrCancel], the run is cancelled. If ctx ends with a
// fault as its cause, the run ends with that error. Run returns an error and
// leaves the run open only if ctx ended with another cause, if the journal
// cannot be written, or if Run itself panics while it opens or ends the run. A
// panic at any other time ends the run.
func Run(ctx context.Context, agentID string, c Config) error {
	return fault.Contain(func() error { return run(ctx, agentID, c) })
}

func run(ctx context.Context, agentID string, c Config) error {
	opening, opened := journal.Outliving(ctx) // a run that is cancelled meanwhile ends like any other
	rec, err := journal.Open(opening, c.Journal, agentID, c.Owner, c.Limits.JournalQuota, c.Logger)
	opened()
	if err != nil {
		return err
	}
	l := &Loop{Config: c, rec: rec, offers: offer.Offers{Of: c.Tools.MCP}, rules: rulebook.Book{Own: c.Team.Rules, Log: c.Logger}}
	l.requests = pullrequest.Requests{Pulls: c.Pulls, Recorder: rec, Privacy: l.privacy, HoldsSecret: l.holdsSecret, Log: c.Logger}
	l.memo = memo.Desk{Memories: c.Tools.Memories, HoldsSecret: l.holdsSecret}
	l.own = &thread{Loop: l, answerer: answerer{model: c.Models.Model, info: c.Models.Info}}
	if l.rec.Snapshot().Next() == agent.NextNothing {
		return nil
	}
	if err = fault.Contain(func() error { return l.work(ctx) }); err != nil {
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
	if err != nil && fault.Of(err).Code == proof.NoProgress {
		return l.expire(ctx, agent.Failed, failure(err))
	}
	return err
}

// turns works turn by turn until ctx ends, then ends the run. The context whole
// limits the time for ending the run.
func (l *Loop) turns(ctx, whole context.Context) error {
	defer func() { _ = l.own.acknowledged() }() // step has already returned the errors that matter
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
	if err := cmp.Or(l.findRules(ctx), l.memo.Open(ctx, l.rec.Snapshot())); err != nil {
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
			case s.Next() == agent.NextFinish: // no background subagent has ended since the last request to the model
				titled() // the event of the title must precede the end of the run
				if err = l.finish(ctx, whole); l.rec.Closed() {
					return err
				}
			}
		}
		if errors.Is(err, remote.ErrLost) {
			err = l.own.forgetMachine(ctx, err)
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
