package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"aloft/internal/account"
	"aloft/internal/agent"
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

func (s *server) turnRoutes() []route {
	return []route{
		{method: "POST", path: "/v1/agents/{id}/queue", id: "queuePrompt", summary: "Queue a prompt: it starts at once if the agent is idle, or when the previous runs have ended",
			header: []param{idempotencyParam, traceParam}, in: queuePromptRequestJSON{}, status: 201, out: queuedJSON{}, handle: s.queuePrompt},
		{method: "GET", path: "/v1/agents/{id}/queue", id: "listQueue", summary: "List the queued prompts, next first",
			status: 200, out: listQueueResponseJSON{}, handle: s.listQueue},
		{method: "DELETE", path: "/v1/agents/{id}/queue/{runId}", id: "unqueuePrompt", summary: "Remove a queued prompt",
			status: 200, out: idResponseJSON{}, handle: s.unqueuePrompt},
		{method: "POST", path: "/v1/agents/{id}/retry", id: "retryTurn", summary: "Rewind an agent's conversation to before a turn and try again; its machine is not changed",
			header: []param{idempotencyParam, traceParam}, in: retryRequestJSON{}, status: 201, out: retryResponseJSON{}, handle: s.retryTurn},
		{method: "GET", path: "/v1/agents/{id}/events/{seq}/images/{n}", id: "getEventImage", summary: "Show an image of a prompt or of a tool's result",
			status: 200, media: "image/*", handle: s.eventImage},
	}
}

// instead is the answer that an agent gets if the user sends a message instead
// of answering its question.
const instead = "I write to you instead of an answer. You get my message when you end your turn: end it now, with what you have."

// queuePrompt journals a prompt for later, or starts its run at once if the
// agent is idle.
func (s *server) queuePrompt(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	id := r.PathValue("id")
	var in queuePromptRequestJSON
	more, err := s.followUp(w, r, who, &in, &in.FollowUp)
	if err != nil {
		return err
	}
	out := queuedJSON{RunID: agent.NewRunID()}
	if more.key != "" {
		out.RunID = "run-" + named(who, "queue "+id, more.key)
	}
	if out.Started, err = s.enqueue(r.Context(), who, id, out.RunID, more); err != nil {
		return err
	}
	return writeJSON(w, http.StatusCreated, out)
}

// enqueue journals a prompt as that of the run, which it starts at once if the
// agent is idle, and wakes the scheduler. If the run exists already, it journals
// nothing.
func (s *server) enqueue(ctx context.Context, who account.APIKey, id, runID string, more followUp) (started bool, err error) {
	err = s.decide(ctx, who, id, func(a agent.Agent) ([]agent.Event, error) {
		if started = false; a.Waits(runID) {
			return nil, nil
		}
		if made, err := s.firstOf(ctx, id, runID); err == nil {
			started = true
			return nil, samePrompt(made, more.prompt)
		} else if !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
		if more.unreachable != nil {
			return nil, more.unreachable
		}
		busy := s.free(ctx, a)
		if busy == nil {
			if err := s.mayAdd(ctx, a.UserID, Quotas{Running: 1}); err != nil {
				return nil, err
			}
		}
		switch {
		case busy == nil && len(a.Queue) == 0:
			started = true
			return []agent.Event{{RunID: runID, Body: &more.run}}, nil
		case busy != nil && fault.Of(busy).Code != codeBusy:
			return nil, busy
		case len(a.Queue) >= maxQueue:
			return nil, fault.Conflict("the queue is full: it has %d prompts", maxQueue).Named("queue_full").Hint("wait until one has started, or remove one")
		}
		events := []agent.Event{{Body: &agent.Queued{RunID: runID, UserID: who.UserID, RunCreated: more.run}}}
		for _, q := range a.Approvals {
			if q.Own() { // otherwise the message would wait for the question that it replaces
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

func (s *server) listQueue(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.agent(r.Context(), who, r.PathValue("id"))
	if err != nil {
		return err
	}
	items, err := s.queueOf(r.Context(), a)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, listQueueResponseJSON{Items: items})
}

func (s *server) queueOf(ctx context.Context, a agent.Agent) ([]queueItemJSON, error) {
	out := []queueItemJSON{}
	for _, q := range a.Queue {
		events, err := s.Journal.Read(ctx, a.ID, q.Seq-1, 1)
		if err != nil {
			return nil, fmt.Errorf("read the queue of %s: %w", a.ID, err)
		}
		for _, e := range events {
			if b, ok := e.Body.(*agent.Queued); ok {
				text := b.Prompt.PlainText()
				out = append(out, queueItemJSON{RunID: b.RunID, Seq: e.Seq, Text: text, Images: len(b.Prompt.Blocks) - 1, QueuedAt: stamp(e.Time)})
			}
		}
	}
	return out, nil
}

func (s *server) unqueuePrompt(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	runID := r.PathValue("runId")
	err := s.decide(r.Context(), who, r.PathValue("id"), func(a agent.Agent) ([]agent.Event, error) {
		if !a.Waits(runID) {
			return nil, fault.NotFound("no queued prompt %s", quoted(runID)).Hint("if it has started, cancel the run")
		}
		return []agent.Event{{Body: &agent.Unqueued{RunID: runID, UserID: who.UserID}}}, nil
	})
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, idResponseJSON{ID: runID})
}

// unqueueAll removes the queued prompts of an agent that is being deleted, so
// that no new run starts when its current one ends.
func (s *server) unqueueAll(ctx context.Context, id string) error {
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
