package team

import (
	"fmt"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/store"
	"aloft/internal/rule"
)

// TestDraftOfSkills checks that an agent has the team's published skills and its drafts,
// each under a name of its own.
func TestDraftOfSkills(t *testing.T) {
	p, s := newPolicy(t)
	for name, text := range map[string]string{rule.SkillsFile: "one", rule.DraftFile: "two"} {
		if err := s.SetRule(t.Context(), store.TeamRules, name, "---\nname: release\ndescription: d\n---\n"+text); err != nil {
			t.Fatal(err)
		}
	}
	rules, err := p.Rules(t.Context(), agent.Agent{UserID: 7})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range rules {
		got = append(got, fmt.Sprint(r.Name(), " ", r.From, " ", r.When, " ", r.Text[len(r.Text)-4:]))
	}
	if want := "[release team request one\n release-draft team mention two\n]"; fmt.Sprint(got) != want {
		t.Errorf("got %q, want %q", fmt.Sprint(got), want)
	}
}
