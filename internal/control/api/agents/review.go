package agents

import (
	"net/http"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/api/rest"
	"aloft/internal/fault"
	"aloft/internal/patch"
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

// reviewOf validates the review of a request. It returns nil if there is none.
func reviewOf(in *createAgentRequestJSON, repos []agent.Repo) (*agent.ReviewTask, error) {
	if in.Review == nil {
		return nil, nil //nolint:nilnil // there is none
	}
	switch {
	case len(repos) != 1 || repos[0].PullRequest != "":
		return nil, fault.Invalid("needs exactly one repository, by its url").At("review")
	case in.AutoCreatePR || in.WorkOnCurrentBranch || in.BranchName != nil || in.Mode != nil || in.Checks != nil || in.Goal != nil || in.Env != nil && in.Env.Preset != "":
		return nil, fault.Invalid("cannot be combined with autoCreatePR, workOnCurrentBranch, branchName, mode, checks, goal or env.preset").At("review").
			Hint("a review changes nothing; omit the others")
	case len(in.Review.Patch) > patch.Max:
		return nil, fault.Invalid("has %d bytes; must have at most %d", len(in.Review.Patch), patch.Max).At("review.patch").Hint("review a part of the change")
	}
	if _, err := patch.Parse(in.Review.Patch); err != nil {
		return nil, fault.Invalid("is not the output of git diff: %v", err).At("review.patch")
	}
	return &agent.ReviewTask{Patch: in.Review.Patch}, nil
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
