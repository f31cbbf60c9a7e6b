package table

import (
	"database/sql"
	"errors"
	"fmt"

	"aloft/internal/agent"
	"aloft/internal/control/store"
	"aloft/internal/control/store/table/query"
)

// maxKnown is how many agents the writer caches. When the cache is full, it is
// cleared, because reading agents again is cheaper than choosing which to
// evict.
const maxKnown = 20_000

// Known is the writer's cache of the rows that it wrote, so that an append
// reads nothing. Only the writer changes those rows, so the cache is never
// stale, but it must be invalidated after a failed request.
type Known struct {
	agents map[string]*folded
	leases map[string]query.Lease // a lease without an owner means that there is none
}

// folded is the current state of an agent and its runs, with the state that was
// last written.
type folded struct {
	agent  agent.Agent
	stored query.Agent
	runs   map[string]*foldedRun
}

type foldedRun struct {
	run    agent.Run
	stored query.Run
}

// NewKnown returns an empty cache.
func NewKnown() *Known {
	k := &Known{}
	k.ForgetAll()
	return k
}

// ForgetAll clears the cache after a rollback.
func (k *Known) ForgetAll() {
	k.agents = map[string]*folded{}
	k.leases = map[string]query.Lease{}
}

func (k *Known) forget(agentID string) { delete(k.agents, agentID) }

func (k *Known) keep(f *folded) {
	if len(k.agents) >= maxKnown {
		clear(k.agents)
	}
	k.agents[f.agent.ID] = f
}

// agent returns the state folded from the agent's journal, or
// [store.ErrNotFound].
func (tx *Tx) agent(id string) (*folded, error) {
	if f := tx.Known.agents[id]; f != nil {
		return f, nil
	}
	row, err := tx.Q.GetAgent(tx.Ctx, id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("agent %s: %w", id, store.ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	a, err := agentOf(row)
	if err != nil {
		return nil, err
	}
	f := &folded{agent: a, stored: row, runs: map[string]*foldedRun{}}
	tx.Known.keep(f)
	return f, nil
}

// run returns the state folded from the run's events, or [store.ErrNotFound].
func (tx *Tx) run(f *folded, id string) (*foldedRun, error) {
	if r := f.runs[id]; r != nil {
		return r, nil
	}
	row, err := tx.Q.GetRun(tx.Ctx, query.GetRunParams{AgentID: f.agent.ID, ID: id})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("run %s: %w", id, store.ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	r, err := runOf(row)
	if err != nil {
		return nil, err
	}
	f.runs[id] = &foldedRun{run: r, stored: row}
	return f.runs[id], nil
}

// lease returns the lease with the given name; it has no owner if nobody holds
// it.
func (tx *Tx) lease(name string) (query.Lease, error) {
	if l, ok := tx.Known.leases[name]; ok {
		return l, nil
	}
	l, err := tx.Q.GetLease(tx.Ctx, name)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return l, err
	}
	l.Name = name
	tx.keepLease(l)
	return l, nil
}

func (tx *Tx) keepLease(l query.Lease) {
	if len(tx.Known.leases) >= maxKnown {
		clear(tx.Known.leases)
	}
	tx.Known.leases[l.Name] = l
}
