package api

import (
	"net/http"

	"aloft/internal/account"
	"aloft/internal/agent"
)

func (s *server) pauseAgent(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	return s.setPaused(w, r, who, true, &agent.Paused{UserID: who.UserID})
}

func (s *server) resumeAgent(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	return s.setPaused(w, r, who, false, &agent.Resumed{UserID: who.UserID})
}

// setPaused journals that the agent is to wait or to go on; its loop reads it
// before its next step. What it is already is no error.
func (s *server) setPaused(w http.ResponseWriter, r *http.Request, who account.APIKey, paused bool, body agent.Body) error {
	id := r.PathValue("id")
	err := s.decide(r.Context(), who, id, func(a agent.Agent) ([]agent.Event, error) {
		if a.Paused == paused {
			return nil, nil
		}
		return []agent.Event{{Body: body}}, nil
	})
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, idResponseJSON{ID: id})
}
