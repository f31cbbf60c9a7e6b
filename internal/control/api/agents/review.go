package agents

import (
	"net/http"

	"aloft/internal/account"
	"aloft/internal/control/api/rest"
)

type reviewJSON struct {
	_           struct{} `json:"-" additionalProperties:"true"`
	Patch       *string  `json:"patch,omitempty" minLength:"1" maxLength:"1048576" doc:"the change, as git diff prints it against the commit that the agent starts from; either this or pullRequest"`
	PullRequest *string  `json:"pullRequest,omitempty" minLength:"1" format:"uri" doc:"URL of an open pull request, instead of repos: the findings are posted there as a review with comments on the lines, with the server's credentials"`
}

type findingsJSON struct {
	_        struct{}            `json:"-" additionalProperties:"true"`
	Findings []reviewFindingJSON `json:"findings" nullable:"false" doc:"in the order in which they were reported"`
	Posted   *reviewPostJSON     `json:"posted,omitempty" doc:"how the last run posted its review; absent unless the agent reviews a pull request and a run has ended"`
}

type reviewPostJSON struct {
	_           struct{} `json:"-" additionalProperties:"true"`
	PullRequest string   `json:"pullRequest" doc:"its URL"`
	Commit      string   `json:"commit" doc:"the commit that was reviewed"`
	URL         string   `json:"url,omitempty" doc:"of the review; absent if it was not posted"`
	Error       string   `json:"error,omitempty" doc:"why it was not posted; the agent's next run tries again"`
	Remarks     []string `json:"remarks,omitempty" nullable:"false" doc:"what else could not be done, such as to set the status of the commit"`
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
	if p := state.Post; p != nil && state.Review != nil && state.Review.PullRequest != nil {
		of := state.Review.PullRequest
		out.Posted = &reviewPostJSON{PullRequest: of.URL, Commit: of.Commit, URL: p.URL, Remarks: p.Remarks}
		if p.Failure != nil {
			out.Posted.Error = p.Failure.Message
			if p.Failure.Hint != "" {
				out.Posted.Error += ": " + p.Failure.Hint
			}
		}
	}
	return rest.WriteJSON(w, http.StatusOK, out)
}
