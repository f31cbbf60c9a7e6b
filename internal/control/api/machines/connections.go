package machines

import (
	"fmt"
	"math"
	"net/http"

	"aloft/internal/account"
	"aloft/internal/control/api/rest"
	"aloft/internal/policy"
)

const (
	maxConnections      = 4096
	standardConnections = 100
)

type connectionsJSON struct {
	_     struct{}            `json:"-" additionalProperties:"true"`
	Open  []policy.Connection `json:"open" nullable:"false" doc:"open connections, oldest first"`
	Ended []policy.Connection `json:"ended" nullable:"false" doc:"closed connections, by seq"`
}

// listConnections shows the connections that the agent's machine has made, and
// those that the network policy refused.
func (s *API) listConnections(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.Agent(r.Context(), who, r.PathValue("id"))
	if err != nil {
		return err
	}
	q := r.URL.Query()
	after, err := rest.Integer(q, "after", 0, 0, math.MaxInt)
	if err != nil {
		return err
	}
	limit, err := rest.Integer(q, "limit", standardConnections, 1, maxConnections)
	if err != nil {
		return err
	}
	all, err := s.Work.Connections(r.Context(), a.ID, uint64(after), limit)
	if err != nil {
		return fmt.Errorf("connections of %s: %w", a.ID, err)
	}
	out := connectionsJSON{Open: []policy.Connection{}, Ended: []policy.Connection{}}
	out.Open, out.Ended = append(out.Open, all.Open...), append(out.Ended, all.Ended...)
	return rest.WriteJSON(w, http.StatusOK, out)
}
