package api

import (
	"cmp"
	"context"
	"math"
	"time"

	"aloft/internal/agent"
	"aloft/internal/allowance"
	"aloft/internal/control/model"
	"aloft/internal/control/store"
	"aloft/internal/fault"
)

type amountJSON struct {
	_       struct{} `json:"-" additionalProperties:"true"`
	Turns   int64    `json:"turns,omitempty" minimum:"0" doc:"model replies, not including subagents'"`
	Tokens  int64    `json:"tokens,omitempty" minimum:"0" doc:"of every kind, including subagents'"`
	CostUSD float64  `json:"costUsd,omitempty" minimum:"0" doc:"in US dollars, for models whose price is known"`
	Seconds int64    `json:"seconds,omitempty" minimum:"0" doc:"wall-clock time, including restarts of the server, not counting time while a request waits for a person or the agent is paused"`
}

func amountOf(a allowance.Amount) *amountJSON {
	return &amountJSON{Turns: a.Turns, Tokens: a.Tokens, CostUSD: float64(a.Cost) / allowance.Dollar, Seconds: a.Seconds}
}

// limitsOf returns the limits at which a run ends and how much of them it has
// used. Both are nil if the run has no limits.
func limitsOf(r agent.Run) (limits, used *amountJSON) {
	if r.Limit == (allowance.Amount{}) {
		return nil, nil
	}
	return amountOf(r.Limit), amountOf(r.Used(time.Now()))
}

// maxDollars is the largest cost limit that is accepted.
const maxDollars = 1e6

func (in *amountJSON) amount() (out allowance.Amount, err error) {
	if math.IsNaN(in.CostUSD) || in.CostUSD > maxDollars || min(in.CostUSD, float64(in.Turns), float64(in.Tokens), float64(in.Seconds)) < 0 {
		return out, fault.Invalid("must be at least 0, and at most %.0f dollars", maxDollars).At("limits")
	}
	return allowance.Amount{Turns: in.Turns, Tokens: in.Tokens, Cost: int64(math.Round(in.CostUSD * allowance.Dollar)), Seconds: in.Seconds}, nil
}

// limit returns the limits that a request sets for each run of the agent, or
// nil if it sets none. It rejects limits above the team's, and a cost limit for
// a model without a known price.
func (s *server) limit(ctx context.Context, in *amountJSON, a agent.Agent) (asked *allowance.Amount, _ error) {
	if in != nil {
		given, err := in.amount()
		if err != nil {
			return nil, err
		}
		asked, a.Limit = &given, given
	}
	h, err := store.Settings(ctx, s.Rules)
	if err != nil {
		return nil, err
	}
	allowed := allowance.Strictest(s.Limit, h.At(a.CreatedAt).Limit)
	if k := a.Limit.FirstAbove(allowed); asked != nil && k != "" {
		return nil, fault.Invalid("%s exceeds the limit of %s per run", a.Limit.Text(k), allowed.Text(k)).Named("limit_too_high").
			Hint("use a lower limit, or ask an admin to raise it: see aloft settings, or limits in the server's configuration").At("limits")
	}
	if allowance.Strictest(a.Limit, allowed).Cost > 0 {
		if err := priced(s.Models, model.ParseRef(cmp.Or(a.Model, s.DefaultModel)).ID); err != nil {
			return nil, fault.Of(err).At("limits")
		}
	}
	return asked, nil
}

// priced returns nil if the price of the model is known. For the id "", all
// models must have a price.
func priced(models []model.Info, id string) error {
	for _, m := range models {
		if id == "" || m.ID == id {
			if err := m.Price.Unpriced(m.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

// settleLimit applies the requested values to the team's limit.
func (s *server) settleLimit(to *allowance.Amount, in updateSettingsRequestJSON) error {
	now := amountOf(*to)
	fields := map[allowance.Kind]string{allowance.Turns: "maxTurns", allowance.Tokens: "maxTokens", allowance.Cost: "maxCostUsd", allowance.Time: "maxSeconds"}
	set(&now.Turns, in.MaxTurns)
	set(&now.Tokens, in.MaxTokens)
	set(&now.CostUSD, in.MaxCostUSD)
	set(&now.Seconds, in.MaxSeconds)
	limit, err := now.amount()
	if err != nil {
		return err
	}
	if k := limit.FirstAbove(s.Limit); k != "" {
		return fault.Invalid("exceeds the server's limit of %s per run", s.Limit.Text(k)).At(fields[k]).
			Hint("use a lower value, or 0 for the server's, or ask the operator to raise limits in the configuration")
	}
	if limit.Cost > 0 {
		if err := priced(s.Models, ""); err != nil {
			return fault.Of(err).At(fields[allowance.Cost])
		}
	}
	*to = limit
	return nil
}

// set stores the given value, unless it is nil.
func set[T any](is, given *T) {
	if given != nil {
		*is = *given
	}
}
