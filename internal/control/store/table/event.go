package table

import (
	"context"
	"errors"
	"fmt"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/store"
	"aloft/internal/control/store/table/query"
)

// Append implements [store.Journal]. Events without a time get the current
// time. Times never decrease within a journal, even if the clock goes back or
// the caller sets an earlier time.
func (s *Store) Append(ctx context.Context, a store.Append) ([]agent.Event, error) {
	rows := make([]query.AddEventParams, len(a.Events))
	for i, e := range a.Events {
		kind, data, err := agent.Encode(e.Body)
		if err != nil {
			return nil, fmt.Errorf("append to %s: %w", a.AgentID, err)
		}
		rows[i] = query.AddEventParams{AgentID: a.AgentID, RunID: e.RunID, Kind: kind, Data: data}
	}
	var written []agent.Event
	err := s.db.Write(ctx, store.LeaseOn(a.AgentID), func(tx *Tx) (err error) {
		written, err = tx.append(a, rows)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("append to %s: %w", a.AgentID, err)
	}
	return written, nil
}

func (tx *Tx) append(a store.Append, rows []query.AddEventParams) ([]agent.Event, error) {
	f, err := tx.admit(a)
	if err != nil {
		return nil, err
	}
	before := f.agent.PullRequests
	written, err := tx.fold(f, a.Events)
	if err != nil {
		tx.Known.forget(a.AgentID)
		return nil, err
	}
	tx.Wrote = true
	for i, e := range written {
		rows[i].Seq, rows[i].Time = e.Seq, e.Time.UnixNano()
	}
	if err := tx.addEvents(rows); err != nil {
		return nil, err
	}
	if err := errors.Join(tx.putFolded(f), tx.putSealed(a.Secrets), tx.addDeliveries(a.AgentID, written), tx.watchPulls(f.agent, before, written)); err != nil {
		return nil, err
	}
	tx.News = &News{AgentID: f.agent.ID, Head: f.agent.Head}
	return written, nil
}

// admit checks the conditions of the append, and returns the agent's current
// state.
func (tx *Tx) admit(a store.Append) (*folded, error) {
	if len(a.Secrets) > 0 && (a.IfHead == nil || *a.IfHead != 0) {
		return nil, errors.New("secrets can only be stored with a new agent")
	}
	f, err := tx.agent(a.AgentID)
	switch absent := errors.Is(err, store.ErrNotFound); {
	case err != nil && !absent:
		return nil, err
	case absent && (a.IfHead == nil || *a.IfHead != 0):
		return nil, err
	case absent:
		f = &folded{agent: agent.Agent{ID: a.AgentID}, runs: map[string]*foldedRun{}}
	case a.IfHead != nil && *a.IfHead == 0:
		return nil, fmt.Errorf("agent %s: %w", a.AgentID, store.ErrExists)
	case a.IfHead != nil && *a.IfHead != f.agent.Head:
		return nil, fmt.Errorf("%w: its last event is %d, not %d", store.ErrMoved, f.agent.Head, *a.IfHead)
	}
	if a.Owner != "" {
		// An expired lease still counts until another server takes it: only
		// then could two servers conflict.
		l, err := tx.lease(store.LeaseOn(a.AgentID))
		if err != nil {
			return nil, err
		}
		if l.Owner != a.Owner {
			return nil, fmt.Errorf("%w: it is not held by %s", store.ErrLeaseLost, a.Owner)
		}
	}
	return f, nil
}

// fold numbers the events, sets their times, and applies them to the agent and
// its runs. On an error the states are invalid.
func (tx *Tx) fold(f *folded, events []agent.Event) ([]agent.Event, error) {
	if len(events) == 0 {
		return nil, errors.New("no events to append")
	}
	now := time.Now()
	written := make([]agent.Event, len(events))
	for i, e := range events {
		_, first := e.Body.(*agent.Created)
		if first != (f.agent.Head == 0) {
			return nil, fmt.Errorf("event %d cannot be %s", f.agent.Head+1, e.Body.Kind())
		}
		if e.Time.IsZero() {
			e.Time = now
		}
		e.Seq, e.Time = f.agent.Head+1, stamp(max(e.Time.UnixNano(), nanos(f.agent.UpdatedAt)))
		if e.RunID != "" {
			r, err := tx.runFor(f, e)
			if err != nil {
				return nil, err
			}
			r.run.Apply(e)
		}
		f.agent.Apply(e)
		written[i] = e
	}
	return written, nil
}

// runFor returns the run of the event. The first event of a run creates it.
func (tx *Tx) runFor(f *folded, e agent.Event) (*foldedRun, error) {
	var r *foldedRun
	err := store.ErrNotFound
	if f.stored.ID != "" || f.runs[e.RunID] != nil { // a new agent has no runs yet
		r, err = tx.run(f, e.RunID)
	}
	_, first := e.Body.(*agent.RunCreated)
	switch {
	case first && errors.Is(err, store.ErrNotFound):
		r = &foldedRun{run: agent.Run{ID: e.RunID, AgentID: f.agent.ID}}
		f.runs[e.RunID] = r
		return r, nil
	case first && err == nil:
		return nil, fmt.Errorf("run %s: %w", e.RunID, store.ErrExists)
	case errors.Is(err, store.ErrNotFound):
		return nil, fmt.Errorf("run %s: %w", e.RunID, store.ErrNotFound)
	}
	return r, err
}

// putFolded writes the changed columns of the agent and its runs, and drops
// ended runs from the cache.
func (tx *Tx) putFolded(f *folded) error {
	if err := tx.putAgent(f); err != nil {
		return err
	}
	for id, r := range f.runs {
		if r.run.LastSeq != r.stored.LastSeq {
			if err := tx.putRun(r); err != nil {
				return err
			}
		}
		if r.stored.EndedAt != 0 && id != f.agent.LatestRunID {
			delete(f.runs, id)
		}
	}
	return nil
}

// Read implements [store.Journal].
func (s *Store) Read(ctx context.Context, agentID string, after int64, limit int) ([]agent.Event, error) {
	rows, err := s.read.ReadEvents(ctx, query.ReadEventsParams{AgentID: agentID, After: after, Most: int64(max(limit, 0))})
	if err != nil {
		return nil, fmt.Errorf("read the journal of %s: %w", agentID, err)
	}
	events := make([]agent.Event, len(rows))
	for i, row := range rows {
		body, err := agent.Decode(row.Kind, row.Data)
		if err != nil {
			return nil, fmt.Errorf("read the journal of %s at %d: %w", agentID, row.Seq, err)
		}
		events[i] = agent.Event{Seq: row.Seq, RunID: row.RunID, Time: stamp(row.Time), Body: body}
	}
	return events, nil
}

// stamp is the inverse of [nanos].
func stamp(nanos int64) time.Time {
	if nanos == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanos).UTC()
}

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}
