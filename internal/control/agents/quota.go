package agents

import (
	"context"
	"fmt"

	"aloft/internal/control/store"
	"aloft/internal/fault"
)

// Quotas limit what each user may have at the same time; 0 is no limit. N
// concurrent requests may exceed them by up to N.
type Quotas struct {
	Agents    int // agents that are not deleted, including archived ones
	Running   int // runs that have not ended, each of which uses a machine
	Snapshots int
	// Disk limits the disk usage; nil means no limit.
	Disk DiskQuota `needed:"no"`
}

// A DiskQuota limits each user's disk usage. Its methods are safe for
// concurrent use.
type DiskQuota interface {
	// MayUseMore returns a fault if the user is over the quota.
	MayUseMore(ctx context.Context, userID int64) error
}

// MayAdd returns an error if the given numbers of additional agents, running
// runs and snapshots would exceed the user's quotas. The disk quota applies to
// agents and snapshots, but not to further runs, because a run may free space.
func (q Quotas) MayAdd(ctx context.Context, agents store.Agents, userID int64, more Quotas) error {
	if q == (Quotas{}) {
		return nil
	}
	usage, err := agents.Held(ctx, userID)
	if err != nil {
		return fmt.Errorf("quotas: %w", err)
	}
	for _, k := range []struct {
		what, hint        string
		most, have, added int
	}{
		{"agents", "delete some, or ask the operator to raise quotas.agents", q.Agents, usage.Agents, more.Agents},
		{"running agents", "wait until one ends or stop it, or ask the operator to raise quotas.running", q.Running, usage.Running, more.Running},
		{"snapshots", "delete some, or ask the operator to raise quotas.snapshots", q.Snapshots, usage.Snapshots, more.Snapshots},
	} {
		if k.most > 0 && k.added > 0 && k.have+k.added > k.most {
			return fault.Exhausted("the quota of %s per person is reached: %d of %d", k.what, k.have, k.most).Hint("%s", k.hint)
		}
	}
	if q.Disk != nil && more.Agents+more.Snapshots > 0 {
		return q.Disk.MayUseMore(ctx, userID)
	}
	return nil
}
