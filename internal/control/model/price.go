package model

import (
	"math"

	"aloft/internal/conversation"
	"aloft/internal/fault"
)

// Price is the price of a million tokens in US dollars. A nil field means that
// the price of that kind of token is unknown.
type Price struct {
	Input, Output, CacheRead, CacheWrite *float64
}

// Of returns the usage with its cost. If p is nil, the cost remains unknown.
func (p *Price) Of(u conversation.Usage) conversation.Usage {
	if p == nil {
		return u
	}
	const perToken = 1e9 / 1e6 // from dollars per million tokens to billionths of a dollar per token
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

// Unpriced returns nil if the price of every kind of token is known. Otherwise
// it returns the fault that a cost limit is not possible for the model with
// that id.
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
	return fault.Invalid("a cost limit requires a price, and the price of the model %s%s is not known", id, what).Named("model_unpriced").
		Hint("set its price%s in the server's configuration (0 if it costs nothing or the provider does not count it), or limit tokens instead", what)
}
