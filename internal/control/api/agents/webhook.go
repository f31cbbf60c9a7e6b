package agents

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"aloft/internal/account"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/store"
	"aloft/internal/fault"
)

type webhookJSON struct {
	_      struct{} `json:"-" additionalProperties:"true"`
	URL    string   `json:"url" format:"uri" maxLength:"2048" doc:"URL that receives the deliveries"`
	Secret *string  `json:"secret,omitempty" minLength:"32" maxLength:"256" doc:"signs the deliveries"`
	Events []string `json:"events,omitempty" nullable:"false" enum:"statusChange,approvalRequested" doc:"statusChange: a run has ended; approvalRequested: a request is waiting for an answer; default both"`
}

type deliveryJSON struct {
	_              struct{}   `json:"-" additionalProperties:"true"`
	ID             string     `json:"id" doc:"X-Webhook-ID of every attempt"`
	Event          string     `json:"event" enum:"statusChange,approvalRequested" doc:"statusChange: a run has ended; approvalRequested: a request is waiting for an answer"`
	RunID          string     `json:"runId"`
	State          string     `json:"state" enum:"pending,delivered,failed"`
	Attempts       int        `json:"attempts" minimum:"0"`
	CreatedAt      time.Time  `json:"createdAt"`
	NextAttemptAt  *time.Time `json:"nextAttemptAt,omitempty" doc:"while it is pending"`
	LastAttemptAt  *time.Time `json:"lastAttemptAt,omitempty"`
	LastStatusCode int        `json:"lastStatusCode,omitempty" doc:"of HTTP"`
	LastError      string     `json:"lastError,omitempty"`
}

type listDeliveriesResponseJSON struct {
	_          struct{}       `json:"-" additionalProperties:"true"`
	Items      []deliveryJSON `json:"items" nullable:"false"`
	NextCursor string         `json:"nextCursor,omitempty" minLength:"1"`
}

func (s *API) webhookRoutes() []rest.Route {
	return []rest.Route{
		{Method: "GET", Path: "/v1/agents/{id}/webhook-deliveries", ID: "listWebhookDeliveries", Summary: "List the deliveries of an agent's webhook, newest first",
			Query: rest.PageParams, Status: 200, Out: listDeliveriesResponseJSON{}, Handle: s.listDeliveries},
		{Method: "POST", Path: "/v1/agents/{id}/webhook-deliveries/{deliveryId}/replay", ID: "replayWebhookDelivery", Summary: "Send a webhook delivery again, with the same id",
			Status: 200, Out: rest.IDResponseJSON{}, Handle: s.replayDelivery},
	}
}

func (s *API) listDeliveries(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.Agent(r.Context(), who, r.PathValue("id"))
	if err != nil {
		return err
	}
	p, limit, err := rest.Page(r.URL.Query(), rest.DeliveryList)
	if err != nil {
		return err
	}
	out := listDeliveriesResponseJSON{Items: []deliveryJSON{}}
	all, err := s.Deliveries.Deliveries(r.Context(), a.ID, p)
	if err != nil {
		return err
	}
	all, out.NextCursor = rest.Cut(rest.DeliveryList, all, limit, func(e store.Delivery) (time.Time, string) { return e.CreatedAt, e.ID })
	for _, d := range all {
		out.Items = append(out.Items, deliveryOf(d))
	}
	return rest.WriteJSON(w, http.StatusOK, out)
}

func deliveryOf(d store.Delivery) deliveryJSON {
	out := deliveryJSON{
		ID: d.ID, Event: string(d.Event), RunID: d.RunID, State: string(d.State), Attempts: d.Attempts, CreatedAt: rest.Stamp(d.CreatedAt),
		LastStatusCode: d.LastStatus, LastError: d.LastError,
	}
	if d.State == store.DeliveryPending {
		next := rest.Stamp(d.NextAt)
		out.NextAttemptAt = &next
	}
	if !d.LastAt.IsZero() {
		last := rest.Stamp(d.LastAt)
		out.LastAttemptAt = &last
	}
	return out
}

func (s *API) replayDelivery(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.Agent(r.Context(), who, r.PathValue("id"))
	if err != nil {
		return err
	}
	id, missing := r.PathValue("deliveryId"), fault.NotFound("the agent has no delivery %s", fault.Quoted(r.PathValue("deliveryId")))
	switch err := s.Deliveries.Redeliver(r.Context(), a.ID, id); {
	case errors.Is(err, store.ErrNotFound):
		return missing
	case err != nil:
		return fmt.Errorf("replay: %w", err)
	}
	return rest.WriteJSON(w, http.StatusOK, rest.IDResponseJSON{ID: id})
}
