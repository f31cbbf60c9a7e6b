package agents

import (
	"errors"
	"fmt"
	"net/http"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/store"
)

func (s *API) pauseAgent(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	return s.setPaused(w, r, who, true, &agent.Paused{UserID: who.UserID})
}

func (s *API) resumeAgent(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	return s.setPaused(w, r, who, false, &agent.Resumed{UserID: who.UserID})
}

// setPaused journals that the agent is paused or resumed. The agent's loop
// reads this before its next step. If the agent is already in that state,
// setPaused succeeds and journals nothing.
func (s *API) setPaused(w http.ResponseWriter, r *http.Request, who account.APIKey, paused bool, body agent.Body) error {
	ctx, id := r.Context(), r.PathValue("id")
	err := s.Decide(ctx, who, id, func(a agent.Agent) ([]agent.Event, error) {
		if a.Paused == paused {
			return nil, nil
		}
		e := agent.Event{Body: body}
		switch run, err := s.Agents.Run(ctx, id, a.LatestRunID); {
		case err != nil && !errors.Is(err, store.ErrNotFound):
			return nil, fmt.Errorf("read %s: %w", a.LatestRunID, err)
		case err == nil && !run.Status.Ended():
			e.RunID = run.ID // a run's time limit does not count while it is paused
		}
		return []agent.Event{e}, nil
	})
	if err != nil {
		return err
	}
	return rest.WriteJSON(w, http.StatusOK, rest.IDResponseJSON{ID: id})
}
