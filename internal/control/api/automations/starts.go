package automations

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"aloft/internal/account"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/inbound"
	"aloft/internal/control/store"
	"aloft/internal/fault"
)

type startRequestJSON struct {
	_      struct{}        `json:"-" additionalProperties:"true"`
	Inputs json.RawMessage `json:"inputs,omitempty" doc:"an object with the values of the automation's inputs"`
	Later  bool            `json:"later,omitempty" doc:"add it to the backlog, from which a person starts it"`
}

type tryRequestJSON struct {
	_       struct{}        `json:"-" additionalProperties:"true"`
	EventID string          `json:"eventId,omitempty" doc:"a received event; admins only"`
	Inputs  json.RawMessage `json:"inputs,omitempty" doc:"an object with the values of the automation's inputs"`
}

type trialJSON struct {
	_        struct{} `json:"-" additionalProperties:"true"`
	Accepted bool     `json:"accepted" doc:"whether the event would start the automation"`
	Reason   string   `json:"reason,omitempty" doc:"why not"`
	Prompt   string   `json:"prompt,omitempty"`
}

type startJSON struct {
	_            struct{}        `json:"-" additionalProperties:"true"`
	ID           string          `json:"id"`
	AutomationID string          `json:"automationId"`
	State        string          `json:"state" enum:"backlog,queued,starting,running,succeeded,failed,skipped,cancelled"`
	Reason       string          `json:"reason,omitempty" doc:"why it failed or was skipped, or the last error"`
	Trigger      string          `json:"trigger" enum:"schedule,event,manual"`
	EventID      string          `json:"eventId,omitempty"`
	UserID       int64           `json:"userId,omitempty" doc:"the person who started it by hand"`
	AgentID      string          `json:"agentId,omitempty" doc:"its agent, once it is started"`
	RunID        string          `json:"runId,omitempty"`
	Inputs       json.RawMessage `json:"inputs,omitempty"`
	Result       string          `json:"result,omitempty" doc:"the agent's last message, shortened"`
	Cost         float64         `json:"cost,omitempty" doc:"in US dollars"`
	ScheduledAt  *time.Time      `json:"scheduledAt,omitempty"`
	CreatedAt    time.Time       `json:"createdAt"`
	StartedAt    *time.Time      `json:"startedAt,omitempty"`
	EndedAt      *time.Time      `json:"endedAt,omitempty"`
}

type listStartsResponseJSON struct {
	_          struct{}    `json:"-" additionalProperties:"true"`
	Items      []startJSON `json:"items" nullable:"false"`
	NextCursor string      `json:"nextCursor,omitempty" minLength:"1"`
}

func jsonOfStart(of store.AutomationStart) startJSON {
	out := startJSON{
		ID: of.ID, AutomationID: of.AutomationID, State: string(of.State), Reason: of.Reason, Trigger: of.Trigger, EventID: of.EventID, UserID: of.UserID,
		Inputs: of.Inputs, Result: of.Result, Cost: float64(of.Cost) / 1e9,
		ScheduledAt: stamp(of.ScheduledAt), CreatedAt: rest.Stamp(of.CreatedAt), StartedAt: stamp(of.StartedAt), EndedAt: stamp(of.EndedAt),
	}
	if !of.StartedAt.IsZero() && of.State != store.StartStarting {
		out.AgentID, out.RunID = of.AgentID, of.RunID
	}
	return out
}

// object returns a JSON object, or nil if there is none.
func object(data json.RawMessage) (json.RawMessage, error) {
	var v map[string]json.RawMessage
	if len(data) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return nil, fault.Invalid("must be an object").At("inputs")
	}
	if len(v) == 0 {
		return nil, nil
	}
	return data, nil
}

func (s *API) start(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.automation(r.Context(), who, r.PathValue("automationId"))
	if err != nil {
		return err
	}
	var in startRequestJSON
	if err := read(w, r, &in); err != nil {
		return err
	}
	if in.Inputs, err = object(in.Inputs); err != nil {
		return err
	}
	key, err := rest.IdempotencyKey(r)
	if err != nil {
		return err
	}
	cause := uuid.NewString()
	if key != "" {
		cause = rest.Named(who, "automation", key)
	}
	of, err := s.Desk.ByHand(r.Context(), a, who.UserID, cause, in.Inputs, in.Later)
	if err != nil {
		return err
	}
	return rest.WriteJSON(w, http.StatusCreated, jsonOfStart(of))
}

func (s *API) listStarts(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	p, limit, err := rest.Page(r.URL.Query(), startList)
	if err != nil {
		return err
	}
	a, err := s.automation(r.Context(), who, r.PathValue("automationId"))
	if err != nil {
		return err
	}
	all, err := s.Store.AutomationStarts(r.Context(), a.ID, p)
	if err != nil {
		return err
	}
	out := listStartsResponseJSON{Items: []startJSON{}}
	all, out.NextCursor = rest.Cut(startList, all, limit, func(of store.AutomationStart) (time.Time, string) { return of.CreatedAt, of.ID })
	for _, of := range all {
		out.Items = append(out.Items, jsonOfStart(of))
	}
	return rest.WriteJSON(w, http.StatusOK, out)
}

func (s *API) promote(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	return s.change(w, r, who, s.Desk.Promote)
}

func (s *API) cancel(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	return s.change(w, r, who, s.Desk.Stop)
}

// change changes the start in the request's path.
func (s *API) change(w http.ResponseWriter, r *http.Request, who account.APIKey, change func(context.Context, string) (store.AutomationStart, error)) error {
	a, err := s.automation(r.Context(), who, r.PathValue("automationId"))
	if err != nil {
		return err
	}
	id := r.PathValue("startId")
	of, err := s.Store.AutomationStart(r.Context(), id)
	if errors.Is(err, store.ErrNotFound) || err == nil && of.AutomationID != a.ID {
		return fault.NotFound("the automation has no start %s", fault.Quoted(id)).Named("automation_start_not_found").Hint("list them with GET /v1/automations/%s/starts", a.ID)
	}
	if err == nil {
		of, err = change(r.Context(), id)
	}
	if err != nil {
		return err
	}
	return rest.WriteJSON(w, http.StatusOK, jsonOfStart(of))
}

func (s *API) try(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.automation(r.Context(), who, r.PathValue("automationId"))
	if err != nil {
		return err
	}
	var in tryRequestJSON
	if err := read(w, r, &in); err != nil {
		return err
	}
	if in.Inputs, err = object(in.Inputs); err != nil {
		return err
	}
	e, err := s.event(r.Context(), who, in.EventID)
	if err != nil {
		return err
	}
	t, err := s.Desk.Try(r.Context(), a, e, in.Inputs)
	if err != nil {
		return err
	}
	return rest.WriteJSON(w, http.StatusOK, trialJSON{Accepted: t.Accepted, Reason: t.Reason, Prompt: t.Prompt})
}

// event returns a received event, or nil if the id is "".
func (s *API) event(ctx context.Context, who account.APIKey, id string) (*inbound.Event, error) {
	if id == "" {
		return nil, nil
	}
	if !who.Role.Covers(account.Admin) {
		return nil, fault.Denied("only admins may read received events").Named("role_forbidden").At("eventId")
	}
	missing := fault.NotFound("there is no event %s", fault.Quoted(id)).Hint("list them with GET /v1/events").At("eventId")
	if s.Event == nil {
		return nil, missing
	}
	e, err := s.Event(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, missing
	case errors.Is(err, store.ErrBodyGone):
		return nil, fault.Gone("the body of the event %s is no longer stored", fault.Quoted(id)).At("eventId")
	}
	return &e, err
}
