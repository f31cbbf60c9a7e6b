package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"aloft/internal/account"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/ledger"
	"aloft/internal/control/store"
	"aloft/internal/fault"
)

// Hooks accepts the events of other services. Its methods are safe for
// concurrent use.
type Hooks interface {
	// Limit returns the maximum size of a source's events in bytes.
	Limit(source string) int64
	// Accept verifies and stores an event, and returns its id. The error is a
	// fault unless the store fails.
	Accept(ctx context.Context, source, connection string, h http.Header, body []byte) (id string, err error)
}

// eventList is the list of inbound events, for cursors.
const eventList rest.List = "i"

type inboundEventJSON struct {
	_             struct{}   `json:"-" additionalProperties:"true"`
	ID            string     `json:"id"`
	Source        string     `json:"source" enum:"generic,gitea,github,gitlab"`
	Connection    string     `json:"connection" doc:"name of the connection in the configuration"`
	Delivery      string     `json:"delivery" doc:"the sender's id of the delivery"`
	Kind          string     `json:"kind" doc:"the sender's name of the event"`
	State         string     `json:"state" enum:"queued,done,ignored,failed"`
	Reason        string     `json:"reason,omitempty" doc:"why it was ignored, or the last error"`
	Attempts      int        `json:"attempts" minimum:"0"`
	ReceivedAt    time.Time  `json:"receivedAt"`
	NextAttemptAt *time.Time `json:"nextAttemptAt,omitempty" doc:"while it is queued"`
	Size          int64      `json:"size" minimum:"0" doc:"of its body in bytes"`
	Replayable    bool       `json:"replayable" doc:"whether its body is still stored"`
}

type listInboundEventsResponseJSON struct {
	_          struct{}           `json:"-" additionalProperties:"true"`
	Items      []inboundEventJSON `json:"items" nullable:"false"`
	NextCursor string             `json:"nextCursor,omitempty" minLength:"1"`
}

func (s *server) inboundRoutes() []rest.Route {
	return []rest.Route{
		{Method: "POST", Path: "/hooks/{source}/{connection}", ID: "receiveEvent", Summary: "Receive an event of another service; its signature authenticates it", Open: true,
			Takes: "application/json", Status: 202, Out: rest.IDResponseJSON{}, Handle: s.receiveEvent},
		{Method: "GET", Path: "/v1/events", ID: "listInboundEvents", Summary: "List events that other services have sent, newest first; admins only", Needs: account.Admin,
			Query:  append(slices.Clone(rest.PageParams), rest.Param{Name: "state", Kind: "string", Words: "only events in this state: queued, done, ignored or failed"}),
			Status: 200, Out: listInboundEventsResponseJSON{}, Handle: s.listInboundEvents},
		{Method: "POST", Path: "/v1/events/{eventId}/replay", ID: "replayInboundEvent", Summary: "Handle a received event again; admins only", Needs: account.Admin,
			Status: 200, Out: rest.IDResponseJSON{}, Handle: s.replayInboundEvent},
	}
}

// receiveEvent replies once the event is stored.
func (s *server) receiveEvent(w http.ResponseWriter, r *http.Request, _ account.APIKey) error {
	if s.config.Hooks == nil {
		return fault.NotFound("there is no connection with that source and name")
	}
	from := s.AddressOf(r)
	if !s.receiving.begin(from) {
		return fault.Unavailable("too many events are being received").Hint("send the event again later")
	}
	defer s.receiving.end(from)
	source := r.PathValue("source")
	defer s.config.Tally.Hold(ledger.Holding{Kind: ledger.Event}, s.config.Hooks.Limit(source))()
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(rest.ReplyWithin)) // fails only in tests, whose writers have no deadlines
	defer func() { _ = rc.SetReadDeadline(time.Time{}) }()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.config.Hooks.Limit(source)))
	if e, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return fault.Invalid("the body is larger than %d KiB", e.Limit>>10).Named(rest.CodeTooLong)
	}
	if err != nil {
		return fault.Invalid("the body is incomplete").Because(err)
	}
	id, err := s.config.Hooks.Accept(r.Context(), source, r.PathValue("connection"), r.Header, body)
	if err != nil {
		return err
	}
	return rest.WriteJSON(w, http.StatusAccepted, rest.IDResponseJSON{ID: id})
}

func (s *server) listInboundEvents(w http.ResponseWriter, r *http.Request, _ account.APIKey) error {
	state := store.InboundState(r.URL.Query().Get("state"))
	if state != "" && !slices.Contains(store.InboundStates, state) {
		return fault.Invalid("must be queued, done, ignored or failed").At("state")
	}
	p, limit, err := rest.Page(r.URL.Query(), eventList)
	if err != nil {
		return err
	}
	out := listInboundEventsResponseJSON{Items: []inboundEventJSON{}}
	all, err := s.config.Inbox.Inbound(r.Context(), state, p)
	if err != nil {
		return err
	}
	all, out.NextCursor = rest.Cut(eventList, all, limit, func(e store.InboundEvent) (time.Time, string) { return e.ReceivedAt, e.ID })
	for _, e := range all {
		one := inboundEventJSON{
			ID: e.ID, Source: e.Source, Connection: e.Connection, Delivery: e.Delivery, Kind: e.Kind, State: string(e.State), Reason: e.Reason,
			Attempts: e.Attempts, ReceivedAt: rest.Stamp(e.ReceivedAt), Size: e.Size, Replayable: e.Kept,
		}
		if e.State == store.InboundQueued {
			next := rest.Stamp(e.NextAt)
			one.NextAttemptAt = &next
		}
		out.Items = append(out.Items, one)
	}
	return rest.WriteJSON(w, http.StatusOK, out)
}

func (s *server) replayInboundEvent(w http.ResponseWriter, r *http.Request, _ account.APIKey) error {
	id := r.PathValue("eventId")
	missing := fault.NotFound("there is no event %s", fault.Quoted(id)).Hint("list them with GET /v1/events")
	switch err := s.config.Inbox.ReplayInbound(r.Context(), id); {
	case errors.Is(err, store.ErrNotFound):
		return missing
	case errors.Is(err, store.ErrBodyGone):
		return fault.Gone("the body of the event %s is no longer stored", fault.Quoted(id)).Hint("send it again at the sender")
	case err != nil:
		return fmt.Errorf("replay: %w", err)
	}
	return rest.WriteJSON(w, http.StatusOK, rest.IDResponseJSON{ID: id})
}
