// Package allowance says how much a run may use, and has used. It does no I/O.
package allowance

import (
	"fmt"
	"strings"
	"time"
)

// Amount is what a run may use, or what it has used. As a limit, 0 bounds nothing.
type Amount struct {
	Turns   int64 `json:"turns,omitempty"`   // replies of the model to the agent itself, not to its subagents
	Tokens  int64 `json:"tokens,omitempty"`  // of every kind, also those of subagents, of summaries and of the classifier
	Cost    int64 `json:"cost,omitempty"`    // of those tokens, in billionths of a US dollar
	Seconds int64 `json:"seconds,omitempty"` // of the clock, less what was spent waiting for people
}

// A Kind is one of the things that an [Amount] has.
type Kind string

// Kinds.
const (
	Turns  Kind = "turns"
	Tokens Kind = "tokens"
	Cost   Kind = "cost"
	Time   Kind = "time"
)

// Kinds are all kinds.
var Kinds = []Kind{Turns, Tokens, Cost, Time}

func (a *Amount) of(k Kind) *int64 {
	switch k {
	case Turns:
		return &a.Turns
	case Tokens:
		return &a.Tokens
	case Cost:
		return &a.Cost
	}
	return &a.Seconds
}

// Of is how much there is of a kind: a number, billionths of a dollar, or seconds.
func (a Amount) Of(k Kind) int64 { return *a.of(k) }

// Text is how much there is of a kind, in words.
func (a Amount) Text(k Kind) string {
	switch n := a.Of(k); k {
	case Cost:
		return fmt.Sprintf("$%.2f", float64(n)/Dollar)
	case Time:
		text := (time.Duration(n) * time.Second).String()
		if whole, ok := strings.CutSuffix(text, "m0s"); ok {
			return whole + "m"
		}
		return text
	default:
		if n == 1 {
			return "1 " + strings.TrimSuffix(string(k), "s")
		}
		return fmt.Sprintf("%d %s", n, k)
	}
}

// Dollar is a US dollar, as [Amount.Cost] counts.
const Dollar = 1e9

// Strictest is what holds where all of the limits do.
func Strictest(limits ...Amount) (out Amount) {
	for _, l := range limits {
		for _, k := range Kinds {
			if n, is := l.Of(k), out.of(k); n > 0 && (*is == 0 || n < *is) {
				*is = n
			}
		}
	}
	return out
}

// Within returns the first kind of which a is more than the limit allows; "" if
// there is none. As of limits, 0 of a kind is no bound, and within every other.
func (a Amount) Within(limit Amount) Kind {
	for _, k := range Kinds {
		if most := limit.Of(k); most > 0 && a.Of(k) > most {
			return k
		}
	}
	return ""
}

// Spent returns the first kind of which used has come to the limit; "" if there is
// none.
func (a Amount) Spent(used Amount) Kind {
	for _, k := range Kinds {
		if most := a.Of(k); most > 0 && used.Of(k) >= most {
			return k
		}
	}
	return ""
}
