package loop

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/store"
)

// currentFor is how long after its own append a recorder assumes that the state
// is current, which saves a read of the journal between two steps of a turn.
const currentFor = 10 * time.Millisecond

// readBatch is how many events are read at once.
const readBatch = 1000

// recorder appends to the journal and keeps the state in sync with it. It owns
// the state; the conversations of a run, which may work in parallel, read
// copies. Its methods are safe for concurrent use.
type recorder struct {
	journal   store.Journal
	owner     string
	log       *slog.Logger
	agentID   string
	runID     string
	refusals  int  // pushes that were refused and reported to the model in this run; changed only by the agent's own conversation, like the next two
	unhooked  int  // commits and pushes that git hooks refused and that were reported to the model in this run
	followups int  // continuations by stop hooks in this run
	closed    bool // the run has ended

	// turn is a lock for reading or writing the journal and applying the
	// events. It is held for as long as the store takes. The fields protected
	// by mu change only while it is held.
	turn chan struct{}
	// appended is when this recorder last appended, if the state was complete
	// then. It is zeroed once news has relied on it. Protected by turn.
	appended time.Time

	mu     sync.Mutex // held only briefly
	state  *agent.State
	losses int    // machines lost in this run
	guest  int64  // bytes from the machine in this run; see guestBytes
	quota  int64  // limit of guest; 0 means journalQuota
	ending bool   // the quota is lifted
	moved  func() // called when the run's clock starts or stops; may be nil
}

// newRecorder folds the agent's journal.
func newRecorder(ctx context.Context, j store.Journal, agentID, owner string, log *slog.Logger) (*recorder, error) {
	r := &recorder{journal: j, owner: owner, log: log, agentID: agentID, turn: make(chan struct{}, 1), state: agent.Fold(agentID, nil)}
	if err := r.catchUp(ctx, 1<<62); err != nil {
		return nil, err
	}
	r.runID = r.state.Run.ID
	return r, nil
}

// take acquires turn. The holder releases it with give.
func (r *recorder) take(ctx context.Context) error {
	select {
	case r.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (r *recorder) give() { <-r.turn }

// catchUp applies the journal's events after the state, up to the number upto.
func (r *recorder) catchUp(ctx context.Context, upto int64) error {
	for r.state.Agent.Head < upto {
		events, err := r.read(ctx, r.state.Agent.Head)
		if err != nil {
			return err
		}
		for _, e := range events {
			r.apply(e)
		}
		if len(events) < readBatch {
			return nil
		}
	}
	return nil
}

func (r *recorder) apply(e agent.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := e.Body.(*agent.MachineLost); ok && e.RunID == r.state.Run.ID {
		r.losses++
	}
	if n, ok := e.Body.(*agent.Notice); ok {
		switch n.Code {
		case secretInPush:
			r.refusals++
		case hookFailed:
			r.unhooked++
		case agent.CodeFollowup:
			r.followups++
		}
	}
	if _, ok := e.Body.(*agent.RunCreated); ok {
		r.losses, r.refusals, r.unhooked, r.followups, r.guest = 0, 0, 0, 0, 0
	}
	r.guest += guestBytes(e.Body)
	went := r.state.Run.Clock.Since
	r.state.Apply(e)
	if r.moved != nil && !went.Equal(r.state.Run.Clock.Since) {
		r.moved()
	}
}

// news applies events that others have appended, and reports whether the agent
// is paused.
func (r *recorder) news(ctx context.Context) (paused bool, head int64, err error) {
	if err := r.take(ctx); err != nil {
		return false, 0, err
	}
	defer r.give()
	current := time.Since(r.appended) < currentFor
	if r.appended = (time.Time{}); !current {
		if err := r.catchUp(ctx, 1<<62); err != nil {
			return false, 0, err
		}
	}
	return r.state.Agent.Paused && r.state.Cancel == "", r.state.Agent.Head, nil
}

// snapshot returns a copy of the state for concurrent use. Slices that it
// shares with the state are append-only.
func (r *recorder) snapshot() *agent.State { return r.snapshotOf("") }

// snapshotOf returns a snapshot with the thread of the subagent started by the
// call, or for "" the agent's own.
func (r *recorder) snapshotOf(task string) *agent.State {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := *r.state
	s.Subagents = slices.Clone(s.Subagents)
	s.Checking.Thread.Calls = slices.Clone(s.Checking.Thread.Calls)
	if task == agent.ChecksThread {
		s.Thread = s.Checking.Thread
	} else if sub := s.Subagent(task); task != "" && sub != nil {
		s.Thread = sub.Thread
	}
	s.Calls = slices.Clone(s.Calls)
	return &s
}

// lost returns how many machines this run has lost.
func (r *recorder) lost() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.losses
}

// call returns a call that has no result yet.
func (r *recorder) call(id string) (c agent.Call, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.state.Find(id); c != nil {
		return *c, true
	}
	return agent.Call{}, false
}

// answerTo applies events that others have appended, and returns the answer to
// the call's approval request, or nil if there is none yet. head is the last
// event seen.
func (r *recorder) answerTo(ctx context.Context, callID string) (answer *agent.ApprovalAnswered, head int64, err error) {
	if err := r.take(ctx); err != nil {
		return nil, 0, err
	}
	defer r.give()
	if err := r.catchUp(ctx, 1<<62); err != nil {
		return nil, 0, err
	}
	if c := r.state.Find(callID); c != nil {
		answer = c.Answer
	}
	return answer, r.state.Agent.Head, nil
}

// record journals events of the run. When it returns nil, they are on disk and
// in the state.
func (r *recorder) record(ctx context.Context, bodies ...agent.Body) error {
	return r.recordIf(ctx, nil, bodies)
}

// recordIf is record with a condition: it returns [store.ErrMoved] if ifHead is not nil
// and the journal's last event has another number.
func (r *recorder) recordIf(ctx context.Context, ifHead *int64, bodies []agent.Body) error {
	if err := r.take(ctx); err != nil {
		return err
	}
	defer r.give()
	if err := r.admit(bodies); err != nil {
		return err
	}
	events := make([]agent.Event, len(bodies))
	for i, b := range bodies {
		events[i] = agent.Event{RunID: r.runID, Body: b}
	}
	events, err := r.append(ctx, store.Append{AgentID: r.agentID, Events: events, Owner: r.owner, IfHead: ifHead})
	if err != nil {
		return err
	}
	return r.applied(ctx, events)
}

// recordDecided journals bodies, followed by decisions that were made by the state at
// head. If anybody has appended since, it journals bodies alone.
func (r *recorder) recordDecided(ctx context.Context, head int64, bodies, decided []agent.Body) error {
	if len(decided) == 0 {
		return r.record(ctx, bodies...)
	}
	all := slices.Concat(bodies, decided)
	err := r.recordIf(ctx, &head, all)
	if errors.Is(err, store.ErrMoved) {
		return r.record(ctx, bodies...)
	}
	return err
}

// applied updates the state with events that were just appended.
func (r *recorder) applied(ctx context.Context, events []agent.Event) error {
	if len(events) == 0 {
		return nil
	}
	// Others append too, for example a cancel request. Apply their events in
	// order.
	if events[0].Seq != r.state.Agent.Head+1 {
		if err := r.catchUp(ctx, events[0].Seq-1); err != nil {
			return err
		}
	}
	for _, e := range events {
		if e.Seq > r.state.Agent.Head {
			r.apply(e)
		}
	}
	r.appended = time.Now()
	return nil
}

// close journals how the run ended. If prompts are queued, the same append
// starts the next run, so that there is no gap in which a prompt could be
// queued and forgotten. This recorder does not work on the next run.
func (r *recorder) close(ctx context.Context, b *agent.RunEnded) error {
	if err := r.take(ctx); err != nil {
		return err
	}
	defer r.give()
	var next []agent.Event
	written, err := r.decide(ctx, func() ([]agent.Event, error) {
		if r.hasEnded() {
			return nil, nil
		}
		var err error
		if next, err = r.next(ctx); err != nil {
			return nil, err
		}
		return append([]agent.Event{{RunID: r.runID, Body: b}}, next...), nil
	})
	if err != nil {
		return err
	}
	if len(written) > 0 {
		r.apply(written[0])
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	return nil
}

// answer returns the answer to the call's approval request. If there is none,
// it journals late and returns that.
func (r *recorder) answer(ctx context.Context, callID string, late *agent.ApprovalAnswered) (*agent.ApprovalAnswered, error) {
	if err := r.take(ctx); err != nil {
		return nil, err
	}
	defer r.give()
	var there *agent.ApprovalAnswered
	written, err := r.decide(ctx, func() ([]agent.Event, error) {
		if c := r.state.Find(callID); c != nil && c.Answer != nil {
			there = c.Answer
			return nil, nil
		}
		return []agent.Event{{RunID: r.runID, Body: late}}, nil
	})
	if err != nil || there != nil {
		return there, err
	}
	return late, r.applied(ctx, written)
}
