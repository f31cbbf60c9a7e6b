package accounts

import (
	"aloft/internal/allowance"
	"aloft/internal/control/api/modelchoice"
	"aloft/internal/fault"
)

// settleLimit applies the requested values to the team's limit.
func (s *API) settleLimit(to *allowance.Amount, in updateSettingsRequestJSON) error {
	now := modelchoice.AmountOf(*to)
	fields := map[allowance.Kind]string{allowance.Turns: "maxTurns", allowance.Tokens: "maxTokens", allowance.Cost: "maxCostUsd", allowance.Time: "maxSeconds"}
	set(&now.Turns, in.MaxTurns)
	set(&now.Tokens, in.MaxTokens)
	set(&now.CostUSD, in.MaxCostUSD)
	set(&now.Seconds, in.MaxSeconds)
	limit, err := now.Amount()
	if err != nil {
		return err
	}
	if k := limit.FirstAbove(s.models.Limit); k != "" {
		return fault.Invalid("exceeds the server's limit of %s per run", s.models.Limit.Text(k)).At(fields[k]).
			Hint("use a lower value, or 0 for the server's, or ask the operator to raise limits in the configuration")
	}
	if limit.Cost > 0 {
		if err := s.models.Choices().CheckPrice(""); err != nil {
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
