package client

import (
	"fmt"
	"strings"
	"time"
)

// Amount is either the limits of a run, where 0 means no limit, or its usage.
type Amount struct {
	Turns   int64   `json:"turns,omitempty"`
	Tokens  int64   `json:"tokens,omitempty"`
	CostUSD float64 `json:"costUsd,omitempty"`
	Seconds int64   `json:"seconds,omitempty"`
}

// Of formats used relative to the limits, such as "3 of 20 turns, 5m0s of
// 1h0m0s". It returns "" if there are no limits.
func (used Amount) Of(limit Amount) string {
	var parts []string
	say := func(limited bool, format string, args ...any) {
		if limited {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	say(limit.Turns > 0, "%d of %d turns", used.Turns, limit.Turns)
	say(limit.Tokens > 0, "%d of %d tokens", used.Tokens, limit.Tokens)
	say(limit.CostUSD > 0, "$%.2f of $%.2f", used.CostUSD, limit.CostUSD)
	say(limit.Seconds > 0, "%s of %s", time.Duration(used.Seconds)*time.Second, time.Duration(limit.Seconds)*time.Second)
	return strings.Join(parts, ", ")
}

// Limited formats how much of its limits the run has used. It returns "" if the
// run has no limits.
func (r Run) Limited() string { return limited(r.Limits, r.Used) }

// Limited is like [Run.Limited] for the agent's latest run.
func (a Agent) Limited() string { return limited(a.Limits, a.Used) }

func limited(limits, used *Amount) string {
	if limits == nil || used == nil {
		return ""
	}
	return used.Of(*limits)
}
