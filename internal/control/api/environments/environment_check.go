package environments

import (
	"net/http"
	"slices"

	"aloft/internal/account"
	"aloft/internal/control/api/rest"
	"aloft/internal/environment"
	"aloft/internal/fault"
)

type checkEnvironmentRequestJSON struct {
	_               struct{} `json:"-" additionalProperties:"true"`
	EnvironmentJSON *string  `json:"environmentJson" nullable:"false"`
	Path            string   `json:"path,omitempty" enum:".aloft/environment.json,.cursor/environment.json" doc:"path of the file in its repository, which its relative paths start from; default the first"`
}

type findingJSON struct {
	_        struct{} `json:"-" additionalProperties:"true"`
	Line     int      `json:"line" minimum:"1"`
	Column   int      `json:"column" minimum:"1" doc:"in bytes"`
	Key      string   `json:"key,omitempty" doc:"such as terminals[2].command; absent for the whole file"`
	Severity string   `json:"severity" enum:"error,warning" doc:"error: the key has no effect; warning: the key may not be what you meant"`
	Message  string   `json:"message" doc:"description of the problem"`
	Instead  string   `json:"instead,omitempty" doc:"what to write instead"`
}

type explainedJSON struct {
	_    struct{} `json:"-" additionalProperties:"true"`
	What string   `json:"what"`
	Says string   `json:"says"`
}

type checkedJSON struct {
	_        struct{}        `json:"-" additionalProperties:"true"`
	Findings []findingJSON   `json:"findings" nullable:"false" doc:"problems, in the order of the text"`
	Explain  []explainedJSON `json:"explain" nullable:"false" doc:"what the file does, in order of execution"`
}

func (s *API) environmentCheckRoutes() []rest.Route {
	return []rest.Route{
		{Method: "POST", Path: "/v1/environment-check", ID: "checkEnvironment", Summary: "Explain and check an environment.json without saving it",
			Needs: account.Viewer, In: checkEnvironmentRequestJSON{}, Status: 200, Out: checkedJSON{}, Handle: s.checkEnvironment},
		{Method: "GET", Path: "/v1/environment-schema", ID: "getEnvironmentSchema", Summary: "Read the JSON schema of environment.json, for editors", Open: true,
			Status: 200, Media: "application/schema+json", Handle: s.environmentSchema},
	}
}

// checkEnvironment returns what `aloft env check` reports about a file.
func (s *API) checkEnvironment(w http.ResponseWriter, r *http.Request, _ account.APIKey) error {
	var in checkEnvironmentRequestJSON
	if err := rest.ReadBody(w, r, &in); err != nil {
		return err
	}
	if in.EnvironmentJSON == nil {
		return fault.Invalid("is required").At("environmentJson")
	}
	if in.Path == "" {
		in.Path = environment.Files[0]
	} else if !slices.Contains(environment.Files, in.Path) {
		return fault.Invalid("must be %s or %s", environment.Files[0], environment.Files[1]).At("path")
	}
	e, findings := environment.Parse(in.Path, []byte(*in.EnvironmentJSON))
	out := checkedJSON{Findings: []findingJSON{}, Explain: []explainedJSON{}}
	for _, f := range findings {
		out.Findings = append(out.Findings, findingJSON{Line: f.Line, Column: f.Column, Key: f.Key, Severity: string(f.Severity), Message: f.Message, Instead: f.Instead})
	}
	for _, l := range e.Explain() {
		out.Explain = append(out.Explain, explainedJSON{What: l.What, Says: l.Says})
	}
	return rest.WriteJSON(w, http.StatusOK, out)
}

func (s *API) environmentSchema(w http.ResponseWriter, _ *http.Request, _ account.APIKey) error {
	w.Header().Set("Content-Type", "application/schema+json")
	_, err := w.Write(environment.Schema())
	return err
}
