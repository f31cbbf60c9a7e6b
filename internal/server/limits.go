package server

import (
	"errors"
	"fmt"
	"math"
	"time"

	"aloft/internal/allowance"
	"aloft/internal/control/ledger"
)

// limitsConfig limits API requests.
type limitsConfig struct {
	RequestsPerMinute int `yaml:"requests_per_minute"` // per user; 0 means no limit
}

// quotasConfig limits what each person may have at the same time. 0 means no limit.
type quotasConfig struct {
	Agents    int `yaml:"agents"`  // including archived ones
	Running   int `yaml:"running"` // agents that work, each in a machine
	Snapshots int `yaml:"snapshots"`
	// DiskBytes and DiskInodes limit a person's total disk usage in the ledger.
	DiskBytes  int64 `yaml:"disk_bytes"`
	DiskInodes int64 `yaml:"disk_inodes"`
}

func (c quotasConfig) check() error {
	if c.Agents < 0 || c.Running < 0 || c.Snapshots < 0 {
		return errors.New("quotas.agents, quotas.running, quotas.snapshots: must not be negative (0 is no limit)")
	}
	if c.DiskBytes < 0 || c.DiskInodes < 0 {
		return errors.New("quotas.disk_bytes, quotas.disk_inodes: must not be negative (0 is no limit)")
	}
	return nil
}

// size returns the disk quota.
func (c quotasConfig) size() ledger.Size {
	return ledger.Size{Bytes: c.DiskBytes, Inodes: c.DiskInodes}
}

// runLimits limits each run. 0 means no limit.
type runLimits struct {
	Turns  int64   `yaml:"turns"`  // model replies, without subagents
	Tokens int64   `yaml:"tokens"` // tokens of every kind, including subagents
	Cost   float64 `yaml:"cost"`   // US dollars; requires a price for every model
	Time   string  `yaml:"time"`   // such as 4h; time spent waiting for people does not count
	// Repeats is how often an identical call may fail with the same error, with
	// no change in between, before the agent is warned; default 3.
	Repeats *int `yaml:"repeats"`
}

// maxCost is far above any sensible limit; a larger value is treated as a
// mistake.
const maxCost = 1e6

func (c runLimits) check(models []ModelConfig) error {
	if c.Repeats != nil && (*c.Repeats < 0 || *c.Repeats == 1) {
		return fmt.Errorf("limits.repeats: is %d; must be at least 2, or 0 for no limit", *c.Repeats)
	}
	if c.Turns < 0 || c.Tokens < 0 {
		return fmt.Errorf("limits.turns, limits.tokens: must not be negative (0 is no limit)")
	}
	if !(c.Cost >= 0) || c.Cost > maxCost { // also rejects NaN
		return fmt.Errorf("limits.cost: %v is out of range: must be 0 to %v US dollars", c.Cost, maxCost)
	}
	if d, err := time.ParseDuration(c.Time); c.Time != "" && (err != nil || d < 0 || d > 0 && d < time.Second) {
		return fmt.Errorf("limits.time: invalid duration %q: use a value such as 4h or 90m, or 0s for no limit", c.Time)
	}
	for i, m := range models {
		if c.Cost == 0 {
			continue
		}
		if err := m.Price.price().Unpriced(m.ID); err != nil {
			return fmt.Errorf("limits.cost: models[%d]: %w", i, err)
		}
	}
	return nil
}

// repeats returns the limit for repetitions of a failing call.
func (c runLimits) repeats() int {
	if c.Repeats == nil {
		return 3
	}
	return *c.Repeats
}

// amount returns the limits. check has already validated them.
func (c runLimits) amount() allowance.Amount {
	d, _ := time.ParseDuration(c.Time)
	return allowance.Amount{Turns: c.Turns, Tokens: c.Tokens, Cost: int64(math.Round(c.Cost * allowance.Dollar)), Seconds: int64(d / time.Second)}
}
