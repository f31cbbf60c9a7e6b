package rest

import (
	"context"
	"fmt"

	"aloft/internal/fault"
)

// Quotas limit what each user may have at the same time; 0 is no limit.
// Requests that are made at the same time may exceed them by their number.
type Quotas struct {
	Agents    int // agents that are not deleted, including archived ones
	Running   int // runs that have not ended, each of which uses a machine
	Snapshots int
}

// MayAdd returns an error if the user would exceed a quota with that many more
// agents, running runs and snapshots.
func (s *Shared) MayAdd(ctx context.Context, userID int64, more Quotas) error {
	if s.Quotas == (Quotas{}) {
		return nil
	}
	held, err := s.Agents.Held(ctx, userID)
	if err != nil {
		return fmt.Errorf("quotas: %w", err)
	}
	for _, q := range []struct {
		what, hint        string
		most, have, added int
	}{
		{"agents", "delete some, or ask the operator to raise quotas.agents", s.Quotas.Agents, held.Agents, more.Agents},
		{"running agents", "wait until one ends or stop it, or ask the operator to raise quotas.running", s.Quotas.Running, held.Running, more.Running},
		{"snapshots", "delete some, or ask the operator to raise quotas.snapshots", s.Quotas.Snapshots, held.Snapshots, more.Snapshots},
	} {
		if q.most > 0 && q.added > 0 && q.have+q.added > q.most {
			return fault.Exhausted("the quota of %s per person is reached: %d of %d", q.what, q.have, q.most).Hint("%s", q.hint)
		}
	}
	return nil
}
