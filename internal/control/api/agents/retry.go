package agents

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/agents"
	"aloft/internal/control/api/modelchoice"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/store"
	"aloft/internal/conversation"
	"aloft/internal/fault"
)

type retryRequestJSON struct {
	_      struct{}                  `json:"-" additionalProperties:"true"`
	Turn   *int                      `json:"turn,omitempty" minimum:"1" doc:"number of the first model reply to replace, from 1; if it is the first of its run, the run's prompt is replaced too"`
	RunID  *string                   `json:"runId,omitempty" doc:"run to repeat, instead of turn; default the latest"`
	Prompt *promptJSON               `json:"prompt,omitempty" doc:"new prompt; default the replaced prompt, or none in the middle of a run"`
	Model  *modelchoice.ModelRefJSON `json:"model,omitempty" doc:"model from now on; default unchanged"`
}

type retryResponseJSON struct {
	_        struct{} `json:"-" additionalProperties:"true"`
	Run      runJSON  `json:"run"`
	Turn     int      `json:"turn" doc:"number of the first reply that is replaced; the replies before it are kept"`
	Replaced int      `json:"replaced" doc:"number of replies removed from the conversation; the journal keeps them"`
}

// retryTurn rewinds the conversation to a turn and starts a run there.
func (s *API) retryTurn(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	ctx, id := r.Context(), r.PathValue("id")
	key, err := rest.IdempotencyKey(r)
	if err != nil {
		return err
	}
	a, err := s.Agent(ctx, who, id)
	if err != nil {
		return err // checked before a body of up to 110 MiB is read
	}
	if err := s.MayReach(ctx, who, a.Repos); err != nil {
		return err
	}
	var in retryRequestJSON
	if err := rest.ReadBody(w, r, &in); err != nil {
		return err
	}
	turn := 0
	if in.Turn != nil {
		if turn = *in.Turn; turn < 1 {
			return fault.Invalid("is %d; turns are counted from 1", turn).At("turn")
		}
		if in.RunID != nil {
			return fault.Invalid("give turn or runId, not both").At("runId")
		}
	}
	var prompt, fetched conversation.Message
	var unreachable error
	if in.Prompt != nil {
		given, err := in.Prompt.prompt()
		if err != nil {
			return err
		}
		if prompt, err = given.Message(); err != nil {
			return err
		}
		fetched, unreachable = given.Fetch(ctx, s.Outbound)
	}
	model := ""
	if in.Model != nil {
		if model, err = s.models.Choose(ctx, in.Model); err != nil {
			return err
		}
		model = cmp.Or(model, agent.DefaultModel)
	}
	runID := agent.NewRunID()
	if key != "" {
		runID = "run-" + rest.Named(who, "retry "+id, key)
	}
	var out retryResponseJSON
	run := agent.Run{AgentID: id}
	var events []agent.Event
	err = s.Decide(ctx, who, id, func(a agent.Agent) ([]agent.Event, error) {
		if made, err := s.firstOf(ctx, id, runID); err == nil {
			events = []agent.Event{made}
			if in.Prompt != nil {
				err = agents.SamePrompt(made, prompt)
			}
			return nil, err
		} else if !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
		if err := s.free(ctx, a); err != nil {
			return nil, err
		}
		if err := s.MayAdd(ctx, a.UserID, agents.Quotas{Running: 1}); err != nil {
			return nil, err
		}
		if unreachable != nil {
			return nil, unreachable
		}
		p, err := s.rewindPoint(ctx, a, turn, in.RunID)
		if err != nil {
			return nil, err
		}
		said := fetched
		if in.Prompt == nil && p.Prompt != nil {
			said = *p.Prompt
		}
		out.Turn, out.Replaced = p.Turn, p.Replaced
		events = append(p.Events(who.UserID), agent.Event{RunID: runID, Body: &agent.RunCreated{Prompt: said, Trace: rest.TraceOf(r), Mode: p.Mode, Model: model}})
		return events, nil
	})
	if err != nil {
		return err
	}
	s.Work.Wake(id)
	run.Apply(events[len(events)-1])
	out.Run = runOf(run, Branches{})
	return rest.WriteJSON(w, http.StatusCreated, out)
}

func (s *API) rewindPoint(ctx context.Context, a agent.Agent, turn int, runID *string) (agent.RewindPoint, error) {
	of := a.LatestRunID
	if runID != nil {
		run, err := s.Run(ctx, a.ID, *runID)
		if err != nil {
			return agent.RewindPoint{}, err
		}
		of = run.ID
	}
	events, err := store.ReadAll(ctx, s.Journal, a.ID)
	if err != nil {
		return agent.RewindPoint{}, err
	}
	p, err := agent.RewindTo(a.ID, events, turn, of)
	const fork = "fork the agent at that turn: a fork has the conversation as it was then"
	switch {
	case errors.Is(err, agent.ErrNoTurn):
		return p, fault.Invalid("is %d; the agent has had %d turns", turn, p.Turn).Hint("omit turn to repeat the last run").At("turn")
	case errors.Is(err, agent.ErrReplaced):
		return p, fault.Conflict("was replaced by a later one").Named("turn_replaced").Hint(fork).At("turn")
	case errors.Is(err, agent.ErrCompacted):
		return p, fault.Conflict("is in the part of the conversation that was summarized").Named("turn_summarised").Hint(fork).At("turn")
	}
	return p, err
}
