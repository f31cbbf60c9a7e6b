package agents

import (
	"cmp"
	"net/http"
	"slices"

	"aloft/internal/account"
	"aloft/internal/control/api/rest"
	"aloft/internal/rule"
)

// contextJSON lists what the agent's model is given besides the prompts.
type contextJSON struct {
	_       struct{}          `json:"-" additionalProperties:"true"`
	Tokens  int               `json:"tokens" minimum:"0" doc:"estimated size of the rules that the model was given"`
	Rules   []agentRuleJSON   `json:"rules" nullable:"false" doc:"rules for the agent's work, in the order in which they count"`
	LeftOut []leftOutRuleJSON `json:"leftOut" nullable:"false" doc:"files of rules, or parts of them, that are not used"`
}

type agentRuleJSON struct {
	_           struct{} `json:"-" additionalProperties:"true"`
	Source      string   `json:"source" doc:"path of the file below the workspace, or rules.md or skills.md/NAME for the team's and the owner's"`
	Kind        string   `json:"kind" enum:"rule,skill,command"`
	From        string   `json:"from" enum:"team,repository,user,memory"`
	When        string   `json:"when" enum:"always,files,request,mention" doc:"files: when a file that matches globs is used; request: the model reads it if the description fits; mention: by name in a prompt"`
	Folder      string   `json:"folder,omitempty" doc:"folder below the workspace to which it applies, if that is not the whole repository"`
	Globs       []string `json:"globs,omitempty" nullable:"false"`
	Description string   `json:"description,omitempty"`
	Imports     []string `json:"imports,omitempty" nullable:"false" doc:"files that are part of it"`
	Tokens      int      `json:"tokens" minimum:"0" doc:"estimated size"`
	Given       string   `json:"given" enum:"yes,offered,no" doc:"whether the model has its text, or only its description"`
}

type leftOutRuleJSON struct {
	_      struct{} `json:"-" additionalProperties:"true"`
	Source string   `json:"source"`
	Why    string   `json:"why"`
}

func (s *API) getContext(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.Agent(r.Context(), who, r.PathValue("id"))
	if err != nil {
		return err
	}
	state, err := s.Folded(r.Context(), a.ID)
	if err != nil {
		return err
	}
	out := contextJSON{Rules: []agentRuleJSON{}, LeftOut: []leftOutRuleJSON{}}
	rules := slices.Clone(state.Found.Rules)
	rule.Order(rules)
	for _, found := range rules {
		item := agentRuleJSON{
			Source: found.Source, Kind: cmp.Or(string(found.Kind), "rule"), From: string(found.From), When: string(found.When), Globs: found.Globs, Description: found.Description, Imports: found.Imports,
			Tokens: found.Tokens(), Given: "no",
		}
		if found.Nested {
			item.Folder = found.Folder
		}
		if i := slices.IndexFunc(state.Applied, found.Is); i >= 0 {
			item.Given = "yes"
			if state.Applied[i].Text == "" {
				item.Given = "offered"
			}
			out.Tokens += state.Applied[i].Tokens()
		}
		out.Rules = append(out.Rules, item)
	}
	left := slices.Clone(state.Found.LeftOut)
	for _, l := range state.NotApplied {
		if l.Budget {
			left = append(left, l)
		}
	}
	for _, l := range left {
		out.LeftOut = append(out.LeftOut, leftOutRuleJSON{Source: l.Source, Why: l.Why})
	}
	return rest.WriteJSON(w, http.StatusOK, out)
}
