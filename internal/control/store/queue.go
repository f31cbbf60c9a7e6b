package store

import (
	"context"
	"fmt"

	"aloft/internal/agent"
)

// Next returns the event that starts a run with the first queued prompt. It
// returns no event if the queue is empty or the agent is archived.
func Next(ctx context.Context, j Journal, a agent.Agent) ([]agent.Event, error) {
	if len(a.Queue) == 0 || a.Archived {
		return nil, nil
	}
	first := a.Queue[0]
	events, err := j.Read(ctx, a.ID, first.Seq-1, 1)
	if err != nil {
		return nil, err
	}
	if len(events) == 0 {
		return nil, fmt.Errorf("event %d of %s: %w", first.Seq, a.ID, ErrNotFound)
	}
	q, ok := events[0].Body.(*agent.Queued)
	if !ok || q.RunID != first.RunID {
		return nil, fmt.Errorf("event %d of %s is not the prompt of %s", first.Seq, a.ID, first.RunID)
	}
	return []agent.Event{{RunID: q.RunID, Body: &q.RunCreated}}, nil
}

const eventsPerRead = 100

// ReadAll returns all events of an agent's journal.
func ReadAll(ctx context.Context, j Journal, agentID string) (events []agent.Event, err error) {
	for {
		more, err := j.Read(ctx, agentID, int64(len(events)), eventsPerRead)
		if err != nil {
			return nil, err
		}
		if events = append(events, more...); len(more) < eventsPerRead {
			return events, nil
		}
	}
}
