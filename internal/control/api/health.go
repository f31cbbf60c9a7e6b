package api

import (
	"net/http"

	"aloft/internal/account"
	"aloft/internal/control/api/rest"
	"aloft/internal/fault"
)

type healthJSON struct {
	_      struct{} `json:"-" additionalProperties:"true"`
	Status string   `json:"status" enum:"ok"`
}

func (s *server) health(w http.ResponseWriter, _ *http.Request, _ account.APIKey) error {
	if err := s.config.Ready(); err != nil {
		return fault.Unavailable("the server is not ready").Named("not_ready").Because(err)
	}
	return rest.WriteJSON(w, http.StatusOK, healthJSON{Status: "ok"})
}
