// Package journal is a run's access to its agent's journal: it appends events,
// folds them to a state, and waits while the store is unreachable. Pieces of
// output are appended in batches, and data from the machine has a quota.
package journal

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/store"
)

// currentFor is how long after its own append a recorder assumes that its state
// is up to date. This saves a read of the journal between two steps of a turn.
const currentFor = 10 * time.Millisecond

// readBatch is how many events are read at once.
const readBatch = 1000

// Codes of the notices that a [Recorder] counts, besides [agent.CodeFollowup].
const (
	// SecretInPush is the error code for a push that contains a secret.
	SecretInPush = "secret_in_push"
	// HookFailed is the error code for a commit or a push that the project's git
	// hooks refused.
	HookFailed = "hook_failed"
)

// Record appends events of the run to the journal and applies them to the
// state.
type Record func(ctx context.Context, bodies ...agent.Body) error

// Recorder appends to a journal and keeps the state in sync with the journal.
// It owns the state. The conversations of a run may work in parallel, and read
// copies of the state. Its methods are safe for concurrent use.
type Recorder struct {
	store   store.Journal
	owner   string // holder of the lease on the agent
	log     *slog.Logger
	agentID string
	runID   string

	// turn is a lock for reading or writing the journal and applying the events.
	// It stays held during calls of the store. The fields protected by mu change
	// only while it is held.
	turn chan struct{}
	// appended is when this recorder last appended, if the state was up to date
	// then. News resets it to zero after using it. Protected by turn.
	appended time.Time

	mu     sync.Mutex // never held during calls of the store
	state  *agent.State
	counts counts
	guest  allotment
	closed bool   // the run has ended
	moved  func() // called when the run's time limit starts or stops counting; may be nil
}

// counts holds how often some events have occurred in the run.
type counts struct {
	losses    int // machines lost
	refusals  int // pushes that were refused and reported to the model
	unhooked  int // commits and pushes that git hooks refused and that were reported to the model
	followups int // continuations by stop hooks
}

// allotment is the run's quota of journal bytes for data from the machine.
type allotment struct {
	used   int64 // bytes, as estimated by guestBytes
	limit  int64
	lifted bool // the quota no longer applies, because the run is ending
}

// Open folds the agent's journal. quota limits the bytes that data from the
// machine may take in the journal of one run; 0 means 1 GiB.
func Open(ctx context.Context, j store.Journal, agentID, owner string, quota int64, log *slog.Logger) (*Recorder, error) {
	r := &Recorder{store: j, owner: owner, log: log, agentID: agentID, turn: make(chan struct{}, 1), state: agent.Fold(agentID, nil)}
	r.guest.limit = cmp.Or(quota, int64(defaultQuota))
	if err := r.catchUp(ctx, 1<<62); err != nil {
		return nil, err
	}
	r.runID = r.state.Run.ID
	return r, nil
}

// AgentID returns the id of the agent.
func (r *Recorder) AgentID() string { return r.agentID }

// RunID returns the id of the run.
func (r *Recorder) RunID() string { return r.runID }

// take acquires turn. The holder releases it with give.
func (r *Recorder) take(ctx context.Context) error {
	select {
	case r.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (r *Recorder) give() { <-r.turn }

// catchUp applies the journal's events that the state lacks, up to event number
// upto.
func (r *Recorder) catchUp(ctx context.Context, upto int64) error {
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

func (r *Recorder) apply(e agent.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := e.Body.(*agent.MachineLost); ok && e.RunID == r.state.Run.ID {
		r.counts.losses++
	}
	if n, ok := e.Body.(*agent.Notice); ok {
		switch n.Code {
		case SecretInPush:
			r.counts.refusals++
		case HookFailed:
			r.counts.unhooked++
		case agent.CodeFollowup:
			r.counts.followups++
		}
	}
	if _, ok := e.Body.(*agent.RunCreated); ok {
		r.counts, r.guest.used = counts{}, 0
	}
	r.guest.used += guestBytes(e.Body)
	went := r.state.Run.Clock.Since
	r.state.Apply(e)
	if r.moved != nil && !went.Equal(r.state.Run.Clock.Since) {
		r.moved()
	}
}

// News applies events that others have appended, and reports whether the agent
// is paused.
func (r *Recorder) News(ctx context.Context) (paused bool, head int64, err error) {
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

// Snapshot returns a copy of the state for concurrent use. Slices that it
// shares with the state are append-only.
func (r *Recorder) Snapshot() *agent.State { return r.SnapshotOf("") }

// SnapshotOf returns a snapshot with the thread of the subagent started by the
// call, or with the agent's own thread if the call is "".
func (r *Recorder) SnapshotOf(task string) *agent.State {
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

// Losses returns how often this run has lost its machine.
func (r *Recorder) Losses() int { return r.counted().losses }

// Refusals returns how many pushes of this run were refused because of a
// secret and reported to the model.
func (r *Recorder) Refusals() int { return r.counted().refusals }

// Unhooked returns how many commits and pushes of this run git hooks refused
// and the loop reported to the model.
func (r *Recorder) Unhooked() int { return r.counted().unhooked }

// Followups returns how often stop hooks have made the model continue in this
// run.
func (r *Recorder) Followups() int { return r.counted().followups }

func (r *Recorder) counted() counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts
}

// Closed reports whether this recorder has journaled the end of the run.
func (r *Recorder) Closed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

// Call returns a call that has no result yet.
func (r *Recorder) Call(id string) (c agent.Call, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.state.Find(id); c != nil {
		return *c, true
	}
	return agent.Call{}, false
}

// AnswerTo applies events that others have appended, and returns the answer to
// the call's approval request, or nil if there is none yet. head is the last
// event seen.
func (r *Recorder) AnswerTo(ctx context.Context, callID string) (answer *agent.ApprovalAnswered, head int64, err error) {
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

// Record journals events of the run. When it returns nil, they are on disk and
// in the state.
func (r *Recorder) Record(ctx context.Context, bodies ...agent.Body) error {
	return r.recordIf(ctx, nil, bodies)
}

// recordIf is like record, but returns [store.ErrMoved] if ifHead is not nil
// and is not the number of the journal's last event.
func (r *Recorder) recordIf(ctx context.Context, ifHead *int64, bodies []agent.Body) error {
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

// RecordDecided journals bodies, followed by decisions that were made by the
// state at head. If events were appended after head, it journals only bodies.
func (r *Recorder) RecordDecided(ctx context.Context, head int64, bodies, decided []agent.Body) error {
	if len(decided) == 0 {
		return r.Record(ctx, bodies...)
	}
	all := slices.Concat(bodies, decided)
	err := r.recordIf(ctx, &head, all)
	if errors.Is(err, store.ErrMoved) {
		return r.Record(ctx, bodies...)
	}
	return err
}

// applied updates the state with events that were just appended.
func (r *Recorder) applied(ctx context.Context, events []agent.Event) error {
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

// Close journals how the run ended. If prompts are queued, the same append
// starts the next run, so that there is no gap in which a prompt could be
// queued and forgotten. This recorder does not work on the next run.
func (r *Recorder) Close(ctx context.Context, b *agent.RunEnded) error {
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

// Answer returns the answer to the call's approval request. If there is none,
// it journals late as the answer and returns it.
func (r *Recorder) Answer(ctx context.Context, callID string, late *agent.ApprovalAnswered) (*agent.ApprovalAnswered, error) {
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
