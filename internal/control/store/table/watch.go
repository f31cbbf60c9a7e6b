package table

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"aloft/internal/control/store"
)

// Watch wakes callers that wait for an agent's journal to grow. It keeps data
// only about agents with waiters. Its zero value is ready to use.
type Watch struct {
	mu     sync.Mutex
	agents map[string]*watched
	closed bool
}

// watched is an agent with waiters.
type watched struct {
	waiting int
	head    int64         // number of the last event that was announced
	end     error         // the reason if there will be no more events
	changed chan struct{} // closed on the next change
}

// Wait implements [store.Journal]. It needs no goroutine.
func (s *Store) Wait(ctx context.Context, agentID string, after int64) error {
	w, err := s.watch.join(agentID)
	if err != nil {
		return err
	}
	defer s.watch.leave(agentID, w)
	// Events written before the call to join were not announced to us, so check
	// once.
	switch head, err := s.read.GetHead(ctx, agentID); {
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("agent %s: %w", agentID, store.ErrNotFound)
	case err != nil:
		return fmt.Errorf("wait for agent %s: %w", agentID, err)
	case head > after:
		return nil
	}
	for {
		changed, head, end := s.watch.look(w)
		switch {
		case end != nil:
			return fmt.Errorf("agent %s: %w", agentID, end)
		case head > after:
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (w *Watch) join(agentID string) (*watched, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, store.ErrClosed
	}
	a := w.agents[agentID]
	if a == nil {
		a = &watched{changed: make(chan struct{})}
		if w.agents == nil {
			w.agents = map[string]*watched{}
		}
		w.agents[agentID] = a
	}
	a.waiting++
	return a, nil
}

func (w *Watch) leave(agentID string, a *watched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a.waiting--
	if a.waiting == 0 && w.agents[agentID] == a {
		delete(w.agents, agentID)
	}
}

func (w *Watch) look(a *watched) (changed <-chan struct{}, head int64, end error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return a.changed, a.head, a.end
}

// News is a change of an agent's journal.
type News struct {
	AgentID string
	Head    int64 // number of the last event; 0 if the agent was deleted
}

// Tell wakes the agent's waiters. It ignores outdated notifications. If an
// agent was deleted, a new agent with the same id has its own waiters.
func (w *Watch) Tell(n News) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.agents[n.AgentID]
	switch {
	case a == nil:
	case n.Head == 0:
		a.end = store.ErrNotFound
		close(a.changed)
		delete(w.agents, n.AgentID)
	case n.Head > a.head:
		a.head = n.Head
		close(a.changed)
		a.changed = make(chan struct{})
	}
}

// Waited returns those of the ids whose agents have waiters. If ids is nil, it
// returns all agents with waiters.
func (w *Watch) Waited(ids []string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ids == nil {
		return slices.Collect(maps.Keys(w.agents))
	}
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return w.agents[id] == nil })
}

// Close wakes all waiters with an error.
func (w *Watch) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for _, a := range w.agents {
		a.end = store.ErrClosed
		close(a.changed)
	}
	clear(w.agents)
}
