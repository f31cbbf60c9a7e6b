package accounts

import (
	"net/http"
	"slices"
	"time"

	"aloft/internal/account"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/store"
	"aloft/internal/fault"
	"aloft/internal/rule"
)

type skillVersionJSON struct {
	_         struct{}  `json:"-" additionalProperties:"true"`
	UserID    int64     `json:"userId" minimum:"1" doc:"who published it"`
	CreatedAt time.Time `json:"createdAt"`
	Current   bool      `json:"current" doc:"agents get this version"`
	Text      string    `json:"text" doc:"as skills.md; empty if the skills were removed"`
}

type listSkillVersionsResponseJSON struct {
	_     struct{}           `json:"-" additionalProperties:"true"`
	Items []skillVersionJSON `json:"items" nullable:"false" doc:"newest first, at most 20"`
}

type publishSkillsRequestJSON struct {
	_    struct{} `json:"-" additionalProperties:"true"`
	Text string   `json:"text" minLength:"1" doc:"the draft that you have tried: skills-draft.md must still have this text"`
}

func (s *API) skillRoutes() []rest.Route {
	return []rest.Route{
		{Method: "GET", Path: "/v1/team/skills/versions", ID: "listSkillVersions", Summary: "List the versions of the team's skills, newest first",
			Status: 200, Out: listSkillVersionsResponseJSON{}, Handle: s.listSkillVersions},
		{Method: "POST", Path: "/v1/team/skills/publish", ID: "publishSkills", Summary: "Publish the draft of the team's skills; admins only", Needs: account.Admin,
			In: publishSkillsRequestJSON{}, Status: 200, Out: ruleJSON{}, Handle: s.publishSkills},
	}
}

func (s *API) listSkillVersions(w http.ResponseWriter, r *http.Request, _ account.APIKey) error {
	versions, err := store.SkillVersions(r.Context(), s.Rules)
	if err != nil {
		return err
	}
	now, err := s.Rules.Rule(r.Context(), store.TeamRules, rule.SkillsFile)
	if err != nil {
		return err
	}
	out := listSkillVersionsResponseJSON{Items: []skillVersionJSON{}}
	for i, v := range slices.Backward(versions) {
		out.Items = append(out.Items, skillVersionJSON{UserID: v.UserID, CreatedAt: v.Since, Text: v.Text, Current: i == len(versions)-1 && v.Text == now})
	}
	return rest.WriteJSON(w, http.StatusOK, out)
}

// publishSkills makes the draft of the team's skills the team's skills.
func (s *API) publishSkills(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	var in publishSkillsRequestJSON
	if err := rest.ReadBody(w, r, &in); err != nil {
		return err
	}
	s.settling.Lock() // two concurrent publications would lose a version
	defer s.settling.Unlock()
	draft, err := s.Rules.Rule(r.Context(), store.TeamRules, rule.DraftFile)
	switch {
	case err != nil:
		return err
	case draft == "":
		return fault.Conflict("the team has no draft of its skills").Named("no_draft").Hint("set one: `aloft rules set --team %s FILE`", rule.DraftFile)
	case draft != in.Text:
		return fault.Conflict("the draft has changed since you read it").Named("draft_changed").Hint("read and try it again, then publish it")
	}
	if err := s.publish(r, who, draft); err != nil {
		return err
	}
	if err := s.Rules.SetRule(r.Context(), store.TeamRules, rule.DraftFile, ""); err != nil {
		return err
	}
	return rest.WriteJSON(w, http.StatusOK, ruleJSON{Owner: "team", Name: rule.SkillsFile, Text: draft})
}

func (s *API) publish(r *http.Request, who account.APIKey, text string) error {
	return store.PublishSkills(r.Context(), s.Rules, rule.Version{Since: time.Now().UTC(), UserID: who.UserID, Text: text})
}
