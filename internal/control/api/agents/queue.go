package agents

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/agents"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/store"
	"aloft/internal/fault"
)

// maxQueue is how many prompts can wait for one agent.
const maxQueue = 20

type queuePromptRequestJSON struct {
	_ struct{} `json:"-" additionalProperties:"true"`
	FollowUp
}

type queuedJSON struct {
	_       struct{} `json:"-" additionalProperties:"true"`
	RunID   string   `json:"runId" doc:"run that the prompt starts"`
	Started bool     `json:"started" doc:"whether the run has started; otherwise it waits for the previous run to end"`
}

type queueItemJSON struct {
	_        struct{}  `json:"-" additionalProperties:"true"`
	RunID    string    `json:"runId" doc:"run that the prompt will start"`
	Seq      int64     `json:"seq" doc:"number of its event"`
	Text     string    `json:"text"`
	Images   int       `json:"images,omitempty"`
	QueuedAt time.Time `json:"queuedAt"`
}

type listQueueResponseJSON struct {
	_     struct{}        `json:"-" additionalProperties:"true"`
	Items []queueItemJSON `json:"items" nullable:"false"`
}

func (s *API) turnRoutes() []rest.Route {
	return []rest.Route{
		{Method: "POST", Path: "/v1/agents/{id}/queue", ID: "queuePrompt", Summary: "Queue a prompt: it starts at once if the agent is idle, or when the previous runs have ended",
			Header: []rest.Param{rest.IdempotencyParam, rest.TraceParam}, In: queuePromptRequestJSON{}, Status: 201, Out: queuedJSON{}, Handle: s.queuePrompt},
		{Method: "GET", Path: "/v1/agents/{id}/queue", ID: "listQueue", Summary: "List the queued prompts, next first",
			Status: 200, Out: listQueueResponseJSON{}, Handle: s.listQueue},
		{Method: "DELETE", Path: "/v1/agents/{id}/queue/{runId}", ID: "unqueuePrompt", Summary: "Remove a queued prompt",
			Status: 200, Out: rest.IDResponseJSON{}, Handle: s.unqueuePrompt},
		{Method: "POST", Path: "/v1/agents/{id}/retry", ID: "retryTurn", Summary: "Rewind an agent's conversation to before a turn and try again; its machine is not changed",
			Header: []rest.Param{rest.IdempotencyParam, rest.TraceParam}, In: retryRequestJSON{}, Status: 201, Out: retryResponseJSON{}, Handle: s.retryTurn},
		{Method: "GET", Path: "/v1/agents/{id}/events/{seq}/images/{n}", ID: "getEventImage", Summary: "Show an image of a prompt or of a tool's result",
			Status: 200, Media: "image/*", Handle: s.eventImage},
	}
}

// instead is the answer that an agent gets if the user sends a message instead
// of answering the agent's question.
const instead = "I am writing to you instead of answering. You get my message when you end your turn: end it now, with what you have."

// queuePrompt journals a prompt for later, or starts a run with it at once if
// the agent is idle.
func (s *API) queuePrompt(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	id := r.PathValue("id")
	var in queuePromptRequestJSON
	more, err := s.followUp(w, r, who, &in, &in.FollowUp)
	if err != nil {
		return err
	}
	out := queuedJSON{RunID: agent.NewRunID()}
	if more.key != "" {
		out.RunID = "run-" + rest.Named(who, "queue "+id, more.key)
	}
	if out.Started, err = s.enqueue(r.Context(), who, id, out.RunID, more); err != nil {
		return err
	}
	return rest.WriteJSON(w, http.StatusCreated, out)
}

// enqueue journals a prompt for the given run, and wakes the scheduler. If the
// agent is idle, it also starts the run. If the run exists already, it does
// nothing.
func (s *API) enqueue(ctx context.Context, who account.APIKey, id, runID string, more followUp) (started bool, err error) {
	err = s.Decide(ctx, who, id, func(a agent.Agent) ([]agent.Event, error) {
		if started = false; a.Waits(runID) {
			return nil, nil
		}
		if made, err := s.firstOf(ctx, id, runID); err == nil {
			started = true
			return nil, agents.SamePrompt(made, more.prompt)
		} else if !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
		if more.unreachable != nil {
			return nil, more.unreachable
		}
		busy := s.free(ctx, a)
		if busy == nil {
			if err := s.MayAdd(ctx, a.UserID, agents.Quotas{Running: 1}); err != nil {
				return nil, err
			}
		}
		switch {
		case busy == nil && len(a.Queue) == 0:
			started = true
			return []agent.Event{{RunID: runID, Body: &more.run}}, nil
		case busy != nil && fault.Of(busy).Code != agents.CodeBusy:
			return nil, busy
		case len(a.Queue) >= maxQueue:
			return nil, fault.Conflict("the queue is full: it has %d prompts", maxQueue).Named("queue_full").Hint("wait until one has started, or remove one")
		}
		events := []agent.Event{{Body: &agent.Queued{RunID: runID, UserID: who.UserID, RunCreated: more.run}}}
		for _, q := range a.Approvals {
			if q.IsQuestion() { // the message replaces the question, so it must not wait for an answer
				events = append(events, agent.Event{RunID: q.RunID, Body: &agent.ApprovalAnswered{ApprovalID: q.ID, Decision: agent.Deny, Message: instead, UserID: who.UserID}})
			}
		}
		if busy == nil { // queued prompts go first
			next, err := store.Next(ctx, s.Journal, a)
			if err != nil {
				return nil, err
			}
			events = append(events, next...)
		}
		return events, nil
	})
	if err == nil {
		s.Work.Wake(id)
	}
	return started, err
}

func (s *API) listQueue(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.Agent(r.Context(), who, r.PathValue("id"))
	if err != nil {
		return err
	}
	items, err := s.queueOf(r.Context(), a)
	if err != nil {
		return err
	}
	return rest.WriteJSON(w, http.StatusOK, listQueueResponseJSON{Items: items})
}

func (s *API) queueOf(ctx context.Context, a agent.Agent) ([]queueItemJSON, error) {
	out := []queueItemJSON{}
	for _, q := range a.Queue {
		events, err := s.Journal.Read(ctx, a.ID, q.Seq-1, 1)
		if err != nil {
			return nil, fmt.Errorf("read the queue of %s: %w", a.ID, err)
		}
		for _, e := range events {
			if b, ok := e.Body.(*agent.Queued); ok {
				text := b.Prompt.PlainText()
				out = append(out, queueItemJSON{RunID: b.RunID, Seq: e.Seq, Text: text, Images: len(b.Prompt.Blocks) - 1, QueuedAt: rest.Stamp(e.Time)})
			}
		}
	}
	return out, nil
}

func (s *API) unqueuePrompt(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	runID := r.PathValue("runId")
	err := s.Decide(r.Context(), who, r.PathValue("id"), func(a agent.Agent) ([]agent.Event, error) {
		if !a.Waits(runID) {
			return nil, fault.NotFound("no queued prompt %s", fault.Quoted(runID)).Hint("if it has started, cancel the run")
		}
		return []agent.Event{{Body: &agent.Unqueued{RunID: runID, UserID: who.UserID}}}, nil
	})
	if err != nil {
		return err
	}
	return rest.WriteJSON(w, http.StatusOK, rest.IDResponseJSON{ID: runID})
}

// unqueueAll removes the queued prompts of an agent that is being deleted, so
// that no new run starts when the current run ends.
func (s *API) unqueueAll(ctx context.Context, id string) error {
	a, err := s.Agents.Agent(ctx, id)
	if err != nil || len(a.Queue) == 0 {
		return err
	}
	var events []agent.Event
	for _, q := range a.Queue {
		events = append(events, agent.Event{Body: &agent.Unqueued{RunID: q.RunID}})
	}
	_, err = s.Journal.Append(ctx, store.Append{AgentID: id, Events: events})
	return err
}
