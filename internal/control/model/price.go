package model

import (
	"math"

	"aloft/internal/conversation"
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
