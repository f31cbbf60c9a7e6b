package agent

import (
	"slices"

	"aloft/internal/rule"
)

type (
	// RulesFound records the rules of the team, of the agent's owner and of the
	// repositories. They apply from now on.
	RulesFound struct {
		rule.Set
		// Nested says that the rules come from folders that a tool has used for the first
		// time. They are added to the other rules.
		Nested bool `json:"nested,omitempty"`
	}
	// RulesGiven records a message to the model with rules that apply to its
	// work.
	RulesGiven struct {
		// Set holds the rules in the message. The text of a rule is "" if the rule is only
		// offered.
		rule.Set
		// Text is the message, exactly as the model receives it.
		Text string `json:"message"`
	}
)

var _ = register(&RulesFound{}, &RulesGiven{})

// Kind implements [Body].
func (*RulesFound) Kind() string { return "rules.found" }

// Kind implements [Body].
func (*RulesGiven) Kind() string { return "rules.given" }

// maxFound is how many rules of an agent are kept.
const maxFound = rule.MaxRules + 100

// fold does not modify slices that copies of the state share.
func (b *RulesFound) fold(s *State, _ Event) {
	if !b.Nested {
		s.Found, s.NotApplied = b.Set, nil
		s.Applied = slices.DeleteFunc(slices.Clone(s.Applied), func(g rule.Rule) bool {
			return !slices.ContainsFunc(b.Rules, func(r rule.Rule) bool { return r.Is(g) })
		})
		return
	}
	all := slices.DeleteFunc(slices.Clone(s.Found.Rules), func(r rule.Rule) bool {
		return slices.ContainsFunc(b.Rules, r.Is)
	})
	all = append(all, b.Rules...)
	left := slices.Concat(s.Found.LeftOut, b.LeftOut)
	s.Found = rule.Set{Rules: all[:min(len(all), maxFound)], LeftOut: left[:min(len(left), 2*rule.MaxLeftOut)]}
}

// addRules folds a [RulesGiven].
func (t *Thread) addRules(b *RulesGiven) {
	t.Applied = slices.DeleteFunc(slices.Clone(t.Applied), func(g rule.Rule) bool {
		return slices.ContainsFunc(b.Rules, g.Is)
	})
	t.Applied = append(t.Applied, b.Rules...)
	t.NotApplied = slices.Concat(t.NotApplied, b.LeftOut)
	t.notice(b.Text)
}
