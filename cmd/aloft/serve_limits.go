package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"aloft/internal/agent"
	"aloft/internal/allowance"
	"aloft/internal/control/store"
	"aloft/internal/fault"
)

// limitsConfig is how much the API may be asked.
type limitsConfig struct {
	RequestsPerMinute int `yaml:"requests_per_minute"` // of each key; 0 is no limit
}

// runLimits are what each run may use at most. 0 of a kind is no limit.
type runLimits struct {
	Turns  int64   `yaml:"turns"`  // replies of the model to the agent itself
	Tokens int64   `yaml:"tokens"` // of every kind, also of subagents
	Cost   float64 `yaml:"cost"`   // US dollars; every model needs its price
	Time   string  `yaml:"time"`   // as 4h; without what a run waits for people
}

// maxCost is far above any; what is above it was meant for something else.
const maxCost = 1e6

func (c runLimits) check(models []modelConfig) error {
	if c.Turns < 0 || c.Tokens < 0 {
		return fmt.Errorf("limits.turns, limits.tokens: less than nothing: give a number, or 0 for no limit")
	}
	if !(c.Cost >= 0) || c.Cost > maxCost { // nor is NaN one
		return fmt.Errorf("limits.cost: %v is not from 0 to %v US dollars", c.Cost, maxCost)
	}
	if d, err := time.ParseDuration(c.Time); c.Time != "" && (err != nil || d < 0 || d > 0 && d < time.Second) {
		return fmt.Errorf("limits.time: %q is no duration: it is as in 4h or 90m, or 0s for no limit", c.Time)
	}
	for i, m := range models {
		if c.Cost == 0 {
			continue
		}
		if err := m.Price.price().Unpriced(m.ID); err != nil {
			return fmt.Errorf("limits.cost: models[%d]: %w: %s", i, err, fault.Of(err).Advice)
		}
	}
	return nil
}

// amount is the limits, which check has read before.
func (c runLimits) amount() allowance.Amount {
	d, _ := time.ParseDuration(c.Time)
	return allowance.Amount{Turns: c.Turns, Tokens: c.Tokens, Cost: int64(math.Round(c.Cost * allowance.Dollar)), Seconds: int64(d / time.Second)}
}

// allowedOf is what the team lets each run of an agent use, as it had settled when
// the agent was made, and the server.
func allowedOf(rules store.Rules, server allowance.Amount) func(context.Context, agent.Agent) (allowance.Amount, error) {
	return func(ctx context.Context, a agent.Agent) (allowance.Amount, error) {
		h, err := store.Settings(ctx, rules)
		return allowance.Strictest(server, h.At(a.CreatedAt).Limit), err
	}
}
