package agents

import (
	"net/http"

	"aloft/internal/account"
	"aloft/internal/control/api/rest"
)

type reviewJSON struct {
	_     struct{} `json:"-" additionalProperties:"true"`
	Patch string   `json:"patch" minLength:"1" maxLength:"1048576" doc:"the change, as git diff prints it against the commit that the agent starts from"`
}

type findingsJSON struct {
	_        struct{}            `json:"-" additionalProperties:"true"`
	Findings []reviewFindingJSON `json:"findings" nullable:"false" doc:"in the order in which they were reported"`
}

type reviewFindingJSON struct {
	_          struct{} `json:"-" additionalProperties:"true"`
	ID         string   `json:"id"`
	Path       string   `json:"path"`
	Line       int      `json:"line" minimum:"1"`
	EndLine    int      `json:"endLine" minimum:"1" doc:"last line; the same as line if there is only one"`
	OldSide    bool     `json:"oldSide,omitempty" doc:"the lines are ones that the change removes"`
	Severity   string   `json:"severity" enum:"low,medium,high"`
	Title      string   `json:"title"`
	Body       string   `json:"body" doc:"Markdown"`
	Suggestion string   `json:"suggestion,omitempty" doc:"text that replaces the lines"`
}

func (s *API) getFindings(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.Agent(r.Context(), who, r.PathValue("id"))
	if err != nil {
		return err
	}
	state, err := s.Folded(r.Context(), a.ID)
	if err != nil {
		return err
	}
	out := findingsJSON{Findings: []reviewFindingJSON{}}
	for _, f := range state.Findings {
		out.Findings = append(out.Findings, reviewFindingJSON{
			ID: f.ID, Path: f.Path, Line: f.Line, EndLine: f.EndLine, OldSide: f.OldSide, Severity: string(f.Severity), Title: f.Title, Body: f.Body, Suggestion: f.Suggestion,
		})
	}
	return rest.WriteJSON(w, http.StatusOK, out)
}
