// Package allowance defines the usage of runs and its limits. It does no I/O.
package allowance

import (
	"fmt"
	"strings"
	"time"
)

// Amount is a usage limit or an amount used. In a limit, 0 means unlimited.
type Amount struct {
	Turns   int64 `json:"turns,omitempty"`   // replies of the model to the agent itself, not to its subagents
	Tokens  int64 `json:"tokens,omitempty"`  // all tokens, including those of subagents, summaries and the classifier
	Cost    int64 `json:"cost,omitempty"`    // cost of these tokens, in billionths of a US dollar
	Seconds int64 `json:"seconds,omitempty"` // elapsed time, without time spent waiting for people
}

// A Kind is one field of an [Amount].
type Kind string

// The kinds of usage.
const (
	Turns  Kind = "turns"
	Tokens Kind = "tokens"
	Cost   Kind = "cost"
	Time   Kind = "time"
)

// Kinds are all kinds.
var Kinds = []Kind{Turns, Tokens, Cost, Time}

func (a *Amount) field(k Kind) *int64 {
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

// Value returns the amount of a kind: a number, billionths of a dollar, or
// seconds.
func (a Amount) Value(k Kind) int64 { return *a.field(k) }

// Text formats the amount of a kind.
func (a Amount) Text(k Kind) string {
	switch n := a.Value(k); k {
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

// Dollar is one US dollar in the unit of [Amount.Cost].
const Dollar = 1e9

// Strictest returns the lowest limit of each kind.
func Strictest(limits ...Amount) (out Amount) {
	for _, l := range limits {
		for _, k := range Kinds {
			if n, is := l.Value(k), out.field(k); n > 0 && (*is == 0 || n < *is) {
				*is = n
			}
		}
	}
	return out
}

// FirstAbove returns the first kind in which a exceeds limit, or "" if it is within
// the limit. In both, 0 means unlimited.
func (a Amount) FirstAbove(limit Amount) Kind {
	for _, k := range Kinds {
		if most := limit.Value(k); most > 0 && a.Value(k) > most {
			return k
		}
	}
	return ""
}

// Spent returns the first kind for which used has reached the limit a, or "" if there is
// none.
func (a Amount) Spent(used Amount) Kind {
	for _, k := range Kinds {
		if most := a.Value(k); most > 0 && used.Value(k) >= most {
			return k
		}
	}
	return ""
}
