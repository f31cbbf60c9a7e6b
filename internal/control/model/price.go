package model

import (
	"math"

	"aloft/internal/conversation"
	"aloft/internal/fault"
)

// Price is what tokens cost, in US dollars for a million of them. Those of a kind
// whose price is nil count as of unknown price.
type Price struct {
	Input, Output, CacheRead, CacheWrite *float64
}

// Of returns the usage with its cost. A nil price leaves it unknown.
func (p *Price) Of(u conversation.Usage) conversation.Usage {
	if p == nil {
		return u
	}
	const perToken = 1e9 / 1e6 // billionths of a dollar for a token, of dollars for a million
	cost := 0.0
	for _, kind := range []struct {
		tokens int64
		price  *float64
	}{{u.Input, p.Input}, {u.Output, p.Output}, {u.CacheRead, p.CacheRead}, {u.CacheWrite, p.CacheWrite}} {
		if kind.price != nil {
			cost += float64(kind.tokens) * *kind.price * perToken
			u.Priced += kind.tokens
		}
	}
	u.Cost += int64(math.Round(cost))
	return u
}

// Unpriced is the fault that the price of a model is not known, where money is
// limited.
func Unpriced(id string) *fault.Error {
	return fault.Invalid("there is a limit of money, and what the model %s costs is not known", id).Named("model_unpriced").
		Hint("give its price in the server's configuration, 0 where it costs nothing, or limit tokens instead")
}
