package agents

import (
	"net/http"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/agents"
	"aloft/internal/control/api/rest"
	"aloft/internal/fault"
)

type updateAgentRequestJSON struct {
	_    struct{} `json:"-" additionalProperties:"true"`
	Name *string  `json:"name,omitempty" minLength:"1" maxLength:"100"`
}

// updateAgent renames an agent. Its branch and pull requests keep their names.
func (s *API) updateAgent(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	id := r.PathValue("id")
	if _, err := s.Agent(r.Context(), who, id); err != nil {
		return err
	}
	var in updateAgentRequestJSON
	if err := rest.ReadBody(w, r, &in); err != nil {
		return err
	}
	if in.Name == nil {
		return fault.Invalid("is required").At("name")
	}
	if err := agents.CheckName(*in.Name); err != nil {
		return err
	}
	err := s.Decide(r.Context(), who, id, func(a agent.Agent) ([]agent.Event, error) {
		if a.Name == *in.Name {
			return nil, nil
		}
		return []agent.Event{{Body: &agent.Titled{Title: *in.Name}}}, nil
	})
	if err != nil {
		return err
	}
	return rest.WriteJSON(w, http.StatusOK, rest.IDResponseJSON{ID: id})
}
