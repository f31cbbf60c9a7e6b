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

// Unpriced is nil where the price of every kind of token is known. Else it is the
// fault that money cannot be limited, since what the model of that id may use costs
// what nobody knows.
func (p *Price) Unpriced(id string) error {
	what := ""
	switch {
	case p == nil:
	case p.Input == nil || p.Output == nil:
	case p.CacheRead == nil && p.CacheWrite == nil:
		what = " for cache_read and cache_write"
	case p.CacheRead == nil:
		what = " for cache_read"
	case p.CacheWrite == nil:
		what = " for cache_write"
	default:
		return nil
	}
	return fault.Invalid("there is a limit of money, and what the model %s costs%s is not known", id, what).Named("model_unpriced").
		Hint("give its price%s in the server's configuration, 0 where it costs nothing or the provider counts none, or limit tokens instead", what)
}
