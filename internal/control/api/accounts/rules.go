package accounts

import (
	"net/http"
	"slices"
	"strings"

	"aloft/internal/account"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/store"
	"aloft/internal/fault"
	"aloft/internal/policy/permit"
	"aloft/internal/policy/sandbox"
	"aloft/internal/rule"
)

// ruleFiles are the names of the rule files that users and the team can have.
var ruleFiles = []string{"permissions.json", "sandbox.json", "hooks.json", rule.File, rule.SkillsFile, rule.DraftFile, "run-mode", "deny-after"}

// maxRule is the maximum length of a rule file, in bytes.
const maxRule = permit.MaxFile

type ruleJSON struct {
	_        struct{} `json:"-" additionalProperties:"true"`
	Owner    string   `json:"owner" enum:"me,team"`
	Name     string   `json:"name" enum:"permissions.json,sandbox.json,hooks.json,rules.md,skills.md,skills-draft.md,run-mode,deny-after"`
	Text     string   `json:"text" doc:"the file as it was set, including comments; empty if there is none"`
	Warnings []string `json:"warnings,omitempty" nullable:"false" doc:"warnings about the file"`
}

type putRuleRequestJSON struct {
	_    struct{} `json:"-" additionalProperties:"true"`
	Text *string  `json:"text" maxLength:"1048576" nullable:"false" doc:"the file; empty removes it"`
}

// ruleOf returns the owner and the name of the rule file that a request is
// about.
func (s *API) ruleOf(r *http.Request, who account.APIKey) (owner, name string, err error) {
	switch r.PathValue("owner") {
	case "me":
		owner = store.RulesOf(who.UserID)
	case store.TeamRules:
		owner = store.TeamRules
	default:
		return "", "", fault.NotFound("unknown rule owner %s", fault.Quoted(r.PathValue("owner"))).Hint("the owner must be me or team")
	}
	if name = r.PathValue("name"); !slices.Contains(ruleFiles, name) {
		return "", "", fault.NotFound("unknown rule file %s", fault.Quoted(name)).Hint("use one of %s", strings.Join(ruleFiles, ", "))
	}
	if name == rule.DraftFile && owner != store.TeamRules {
		return "", "", fault.NotFound("only the team has a draft of its skills").Hint("try a skill of your own in %s", rule.SkillsFile)
	}
	return owner, name, nil
}

func (s *API) getRule(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	owner, name, err := s.ruleOf(r, who)
	if err != nil {
		return err
	}
	text, err := s.Rules.Rule(r.Context(), owner, name)
	if err != nil {
		return err
	}
	return rest.WriteJSON(w, http.StatusOK, ruleJSON{Owner: r.PathValue("owner"), Name: name, Text: text})
}

// putRule stores a rule file, if it is valid.
func (s *API) putRule(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	owner, name, err := s.ruleOf(r, who)
	if err != nil {
		return err
	}
	if owner == store.TeamRules && !who.Role.Covers(account.Admin) {
		return fault.Denied("only admins may set the team's rules").Named(rest.CodeTeamAdmin).Hint("set your own")
	}
	var in putRuleRequestJSON
	if err := rest.ReadBody(w, r, &in); err != nil {
		return err
	}
	if in.Text == nil {
		return fault.Invalid("is required; an empty text removes the file").At("text")
	}
	text, out := *in.Text, ruleJSON{Owner: r.PathValue("owner"), Name: name}
	if strings.TrimSpace(text) == "" {
		text = ""
	} else if text, out.Warnings, err = s.checkRule(name, text); err != nil {
		return err
	}
	if owner == store.TeamRules && name == rule.SkillsFile {
		s.settling.Lock()
		err = s.publish(r, who, text)
		s.settling.Unlock()
	} else {
		err = s.Rules.SetRule(r.Context(), owner, name, text)
	}
	if err != nil {
		return err
	}
	out.Text = text
	return rest.WriteJSON(w, http.StatusOK, out)
}

// checkRule validates a rule file and returns the text to store.
func (s *API) checkRule(name, text string) (keep string, warnings []string, err error) {
	if len(text) > maxRule {
		return "", nil, fault.Invalid("has %d bytes; the limit is %d", len(text), maxRule).At("text")
	}
	switch name {
	case "permissions.json":
		_, err = permit.Parse(name, []byte(text))
	case "sandbox.json":
		var layer *sandbox.Layer
		if layer, err = sandbox.Parse([]byte(text)); err == nil {
			for _, key := range layer.Unknown {
				warnings = append(warnings, "unknown key "+fault.Quoted(key))
			}
		}
	case "hooks.json":
		err = s.CheckHooks([]byte(text))
	case rule.File:
		var r rule.Rule
		var ok bool
		if r, warnings, ok = rule.Parse(name, "", false, text); !ok {
			return "", nil, fault.Invalid("%s", warnings[len(warnings)-1]).At("text")
		}
		text = r.Text + "\n"
	case rule.SkillsFile, rule.DraftFile:
		_, warnings, err = rule.ParseSkills(rule.Team, text)
	case "run-mode":
		text = strings.TrimSpace(text)
		_, err = permit.ParseMode(text)
	case "deny-after":
		text = strings.TrimSpace(text)
		_, err = permit.ParseDenyAfter(text)
	}
	if err != nil {
		return "", nil, fault.Invalid("%v", err).At("text")
	}
	return text, warnings, nil
}
