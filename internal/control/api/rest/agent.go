package rest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/store"
	"aloft/internal/fault"
)

// IDResponseJSON is the reply of operations that return only an id.
type IDResponseJSON struct {
	_  struct{} `json:"-" additionalProperties:"true"`
	ID string   `json:"id"`
}

// Agent returns the caller's agent. For another user's agent it returns "not
// found", so that callers cannot learn which ids exist.
func (s *Shared) Agent(ctx context.Context, who account.APIKey, id string) (agent.Agent, error) {
	missing := fault.NotFound("no agent %s", fault.Quoted(id)).Named("agent_not_found")
	if !agent.ValidID(id) {
		return agent.Agent{}, missing
	}
	a, err := s.Agents.Agent(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && !who.MaySee(a.UserID):
		return agent.Agent{}, missing
	case err != nil:
		return agent.Agent{}, fmt.Errorf("read %s: %w", id, err)
	}
	return a, nil
}

// Decide appends the events that choose returns. If the agent has changed
// meanwhile, Decide calls choose again with the new state. If choose returns no
// events, Decide appends nothing.
func (s *Shared) Decide(ctx context.Context, who account.APIKey, id string, choose func(agent.Agent) ([]agent.Event, error)) error {
	for {
		a, err := s.Agent(ctx, who, id)
		if err != nil {
			return err
		}
		events, err := choose(a)
		if err != nil || len(events) == 0 {
			return err
		}
		done, err := s.Journal.Append(ctx, store.Append{AgentID: id, Events: events, IfHead: &a.Head})
		switch {
		case err == nil:
			copy(events, done)
			return nil
		case !errors.Is(err, store.ErrMoved):
			return fmt.Errorf("append to %s: %w", id, err)
		case ctx.Err() != nil:
			return ctx.Err()
		}
	}
}

// Stamp returns a time in the API's form: UTC, truncated to milliseconds.
func Stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// Folded returns the state folded from an agent's whole journal.
func (s *Shared) Folded(ctx context.Context, id string) (*agent.State, error) {
	state := agent.Fold(id, nil)
	for {
		events, err := s.Journal.Read(ctx, id, state.Agent.Head, 1000)
		if err != nil {
			return nil, err
		}
		if len(events) == 0 {
			return state, nil
		}
		for _, e := range events {
			state.Apply(e)
		}
	}
}
