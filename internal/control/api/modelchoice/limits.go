package modelchoice

import (
	"context"
	"math"
	"time"

	"aloft/internal/agent"
	"aloft/internal/allowance"
	"aloft/internal/fault"
)

// AmountJSON is an amount in the API's form.
type AmountJSON struct {
	_       struct{} `json:"-" additionalProperties:"true"`
	Turns   int64    `json:"turns,omitempty" minimum:"0" doc:"model replies, not including subagents'"`
	Tokens  int64    `json:"tokens,omitempty" minimum:"0" doc:"of every kind, including subagents'"`
	CostUSD float64  `json:"costUsd,omitempty" minimum:"0" doc:"in US dollars, for models whose price is known"`
	Seconds int64    `json:"seconds,omitempty" minimum:"0" doc:"wall-clock time, including restarts of the server, not counting time while a request waits for a person or the agent is paused"`
}

// AmountOf returns an amount in the API's form.
func AmountOf(a allowance.Amount) *AmountJSON {
	return &AmountJSON{Turns: a.Turns, Tokens: a.Tokens, CostUSD: float64(a.Cost) / allowance.Dollar, Seconds: a.Seconds}
}

// LimitsOf returns the limits at which a run ends, and how much the run has
// used. Both are nil if the run has no limits.
func LimitsOf(r agent.Run) (limits, used *AmountJSON) {
	if r.Limit == (allowance.Amount{}) {
		return nil, nil
	}
	return AmountOf(r.Limit), AmountOf(r.Used(time.Now()))
}

// maxDollars is the largest cost limit that is accepted.
const maxDollars = 1e6

// Amount returns the amount, or a fault if it is out of range.
func (in *AmountJSON) Amount() (out allowance.Amount, err error) {
	if math.IsNaN(in.CostUSD) || in.CostUSD > maxDollars || min(in.CostUSD, float64(in.Turns), float64(in.Tokens), float64(in.Seconds)) < 0 {
		return out, fault.Invalid("must be at least 0, and at most %.0f dollars", maxDollars).At("limits")
	}
	return allowance.Amount{Turns: in.Turns, Tokens: in.Tokens, Cost: int64(math.Round(in.CostUSD * allowance.Dollar)), Seconds: in.Seconds}, nil
}

// Asked returns the amount, or nil if in is nil.
func (in *AmountJSON) Asked() (*allowance.Amount, error) {
	if in == nil {
		return nil, nil
	}
	amount, err := in.Amount()
	return &amount, err
}

// LimitFor returns the limits that a request sets for each run of the agent, or
// nil if it sets none. It returns the errors of [agents.Models.CheckLimit].
func (s *API) LimitFor(ctx context.Context, in *AmountJSON, a agent.Agent) (*allowance.Amount, error) {
	asked, err := in.Asked()
	if err != nil {
		return nil, err
	}
	return asked, s.Choices().CheckLimit(ctx, asked, a)
}
