package sqlite

import (
	"database/sql"
	"errors"
	"fmt"

	"aloft/internal/agent"
	"aloft/internal/control/store"
	"aloft/internal/control/store/sqlite/query"
)

// maxKnown bounds the agents that the writer remembers. Past it all are
// forgotten: to read them again costs little, and to choose costs more.
const maxKnown = 20_000

// known is what the writer remembers of the rows it wrote, so that an append
// reads nothing. Only the writer changes them, so it is never out of date; but
// what belongs to a request that failed has to be forgotten.
type known struct {
	agents map[string]*folded
	leases map[string]query.Lease // without an owner where there is none
}

// folded is an agent and its runs as the journal has them so far, and as they
// were written last.
type folded struct {
	agent  agent.Agent
	stored query.Agent
	runs   map[string]*foldedRun
}

type foldedRun struct {
	run    agent.Run
	stored query.Run
}

func (k *known) forgetAll() {
	k.agents = map[string]*folded{}
	k.leases = map[string]query.Lease{}
}

func (k *known) forget(agentID string) { delete(k.agents, agentID) }

func (k *known) keep(f *folded) {
	if len(k.agents) >= maxKnown {
		clear(k.agents)
	}
	k.agents[f.agent.ID] = f
}

// agent returns what the journal of the agent folds to so far, or
// [store.ErrNotFound].
func (tx *tx) agent(id string) (*folded, error) {
	if f := tx.known.agents[id]; f != nil {
		return f, nil
	}
	row, err := tx.q.GetAgent(tx.ctx, id)
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
	tx.known.keep(f)
	return f, nil
}

// run returns what the run folds to so far, or [store.ErrNotFound].
func (tx *tx) run(f *folded, id string) (*foldedRun, error) {
	if r := f.runs[id]; r != nil {
		return r, nil
	}
	row, err := tx.q.GetRun(tx.ctx, query.GetRunParams{AgentID: f.agent.ID, ID: id})
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

// lease returns the lease of that name; without an owner where there is none.
func (tx *tx) lease(name string) (query.Lease, error) {
	if l, ok := tx.known.leases[name]; ok {
		return l, nil
	}
	l, err := tx.q.GetLease(tx.ctx, name)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return l, err
	}
	l.Name = name
	tx.keepLease(l)
	return l, nil
}

func (tx *tx) keepLease(l query.Lease) {
	if len(tx.known.leases) >= maxKnown {
		clear(tx.known.leases)
	}
	tx.known.leases[l.Name] = l
}
