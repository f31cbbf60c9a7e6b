package agents

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"aloft/internal/account"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/store"
	"aloft/internal/fault"
	"aloft/internal/secret"
)

// Outbound makes requests to URLs that users name. Its methods are safe for
// concurrent use, and their errors are faults that do not repeat the URL.
type Outbound interface {
	// Check rejects a URL that the server must not contact.
	Check(rawURL string) error
	// Image fetches an image and returns its media type.
	Image(ctx context.Context, rawURL string) (data []byte, media string, err error)
}

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

// sealWebhook validates and encrypts the webhook of a new agent.
func (s *API) sealWebhook(ctx context.Context, agentID string, in *webhookJSON) ([]secret.Sealed, error) {
	if in == nil {
		return nil, nil
	}
	if err := s.Outbound.Check(in.URL); err != nil {
		return nil, fault.Of(err).At("webhook.url")
	}
	for i, e := range in.Events {
		if e != string(store.StatusChange) && e != string(store.ApprovalRequested) {
			return nil, fault.Invalid("is %q; must be statusChange or approvalRequested", e).At(fmt.Sprintf("webhook.events[%d]", i))
		}
	}
	key := ""
	if in.Secret != nil {
		if key = *in.Secret; len(key) < 32 || len(key) > 256 {
			return nil, fault.Invalid("has %d bytes; must have 32 to 256", len(key)).At("webhook.secret")
		}
	}
	sealed, err := s.Secrets.SealWebhook(ctx, agentID, in.URL, key)
	return []secret.Sealed{sealed}, err
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
	id, missing := r.PathValue("deliveryId"), fault.NotFound("the agent has no delivery %s", rest.Quoted(r.PathValue("deliveryId")))
	switch err := s.Deliveries.Redeliver(r.Context(), a.ID, id); {
	case errors.Is(err, store.ErrNotFound):
		return missing
	case err != nil:
		return fmt.Errorf("replay: %w", err)
	}
	return rest.WriteJSON(w, http.StatusOK, rest.IDResponseJSON{ID: id})
}
