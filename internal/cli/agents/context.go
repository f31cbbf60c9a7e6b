package agents

import (
	"strconv"
	"strings"

	"aloft/internal/cli"
	"aloft/internal/client"
)

// showContext prints the rules for an agent's work, and the parts that were
// left out.
func (a *app) showContext(c client.Context) {
	a.Out.Line("")
	if len(c.Rules) == 0 {
		a.Out.Line("The agent has no rules.")
	} else {
		rows := [][]string{{"RULE", "FROM", "APPLIES", "TOKENS", "GIVEN"}}
		for _, r := range c.Rules {
			rows = append(rows, []string{cli.Line(r.Source, 100), cli.Line(r.From, 20), cli.Line(whenApplies(r), 100), strconv.Itoa(r.Tokens), cli.Line(r.Given, 20)})
		}
		a.Out.Table(rows)
		a.Out.Line("")
		a.Out.Line("The model was given about %d tokens of rules.", c.Tokens)
	}
	for i, l := range c.LeftOut {
		if i == 0 {
			a.Out.Line("")
			a.Out.Line("%s", a.Out.Style(cli.Bold, "Not used, or not as written:"))
		}
		a.Out.Line("  %s: %s", cli.Line(l.Source, 200), cli.Line(l.Why, 0))
	}
}

// whenApplies says in a few words when a rule applies.
func whenApplies(r client.AgentRule) string {
	when := map[string]string{"always": "always", "files": "to " + strings.Join(r.Globs, ", "), "request": "if it fits: " + r.Description, "mention": "by name"}[r.When]
	if r.Folder != "" {
		when += " in " + r.Folder
	}
	return when
}
