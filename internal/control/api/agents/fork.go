package agents

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/agents"
	"aloft/internal/control/api/modelchoice"
	"aloft/internal/control/api/rest"
	"aloft/internal/fault"
)

// maxForks is how many agents one request can create.
const maxForks = 10

type forkRequestJSON struct {
	_       struct{}                  `json:"-" additionalProperties:"true"`
	N       *int                      `json:"n,omitempty" minimum:"1" maximum:"10" doc:"number of forks; default the number of prompts"`
	Prompt  *promptJSON               `json:"prompt,omitempty" doc:"prompt for every fork"`
	Prompts []promptJSON              `json:"prompts,omitempty" maxItems:"10" nullable:"false" doc:"one prompt per fork, instead of prompt"`
	Turn    *int                      `json:"turn,omitempty" minimum:"1" doc:"number of the model's reply to continue after, from 1; default the last"`
	Model   *modelchoice.ModelRefJSON `json:"model,omitempty" doc:"default the agent's model"`
	EnvVars map[string]string         `json:"envVars,omitempty" maxProperties:"50" doc:"for the forks' machines; the agent's own variables are not copied"`
}

type forkResponseJSON struct {
	_     struct{}                  `json:"-" additionalProperties:"true"`
	Turn  int                       `json:"turn" doc:"turn that the forks continue after"`
	Disk  bool                      `json:"disk" doc:"the forks start from a copy of the machine's disk, rather than from what was pushed then"`
	Live  bool                      `json:"live" doc:"the machine's processes are copied too"`
	Items []createAgentResponseJSON `json:"items" nullable:"false"`
}

func (s *API) forkAgent(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	key, err := rest.IdempotencyKey(r)
	if err != nil {
		return err
	}
	a, err := s.Agent(r.Context(), who, r.PathValue("id"))
	if err != nil {
		return err
	}
	var in forkRequestJSON
	if err := rest.ReadBody(w, r, &in); err != nil {
		return err
	}
	if err := s.MayReach(r.Context(), who, a.Repos); err != nil {
		return err
	}
	q, err := in.request()
	if err != nil {
		return err
	}
	ctx := context.WithoutCancel(r.Context()) // complete the fork even if the client disconnects
	q.By, q.Agent, q.Trace = who, a, rest.TraceOf(r)
	for i := range q.Forks {
		f := &q.Forks[i]
		if f.ID = agent.NewID(); key != "" {
			if f.ID, err = s.IDOfKey(ctx, who, "fork "+a.ID+" "+strconv.Itoa(i), key); err != nil {
				return err
			}
		}
		f.RunID = newRunID(who, f.ID, key)
	}
	made, err := s.Creator().Fork(ctx, q)
	if err != nil {
		return err
	}
	out := forkResponseJSON{Turn: made.Turn, Disk: made.Disk, Live: made.Live, Items: []createAgentResponseJSON{}}
	for _, f := range made.Forks {
		out.Items = append(out.Items, s.resultOf(f))
	}
	return rest.WriteJSON(w, http.StatusCreated, out)
}

// request decodes and validates the request.
func (in *forkRequestJSON) request() (q agents.ForkRequest, err error) {
	n, err := in.count()
	if err != nil {
		return q, err
	}
	for i := range n {
		prompt, field := in.Prompt, ""
		if in.Prompts != nil {
			prompt, field = &in.Prompts[i], "prompts["+strconv.Itoa(i)+"]"
		}
		p, err := prompt.prompt()
		if err != nil {
			if at := fault.Of(err); field != "" && at.Kind == fault.KindInvalid {
				return q, at.At(field + strings.TrimPrefix(at.Field, "prompt"))
			}
			return q, err
		}
		q.Forks = append(q.Forks, agents.ForkPrompt{Prompt: p, Field: field})
	}
	if in.Turn != nil {
		if q.Turn = *in.Turn; q.Turn < 1 {
			return q, fault.Invalid("is %d; turns are counted from 1", q.Turn).At("turn")
		}
	}
	q.Model, q.EnvVars = in.Model.Ref(), in.EnvVars
	return q, nil
}

// count returns how many forks the request asks for.
func (in *forkRequestJSON) count() (int, error) {
	n := 1
	switch {
	case in.Prompt != nil && in.Prompts != nil:
		return 0, fault.Invalid("give either prompt, for all forks, or prompts, one per fork").At("prompts")
	case in.Prompts != nil:
		n = len(in.Prompts)
	}
	if in.N != nil {
		if in.Prompts != nil && *in.N != n {
			return 0, fault.Invalid("is %d, but there are %d prompts", *in.N, n).At("n")
		}
		n = *in.N
	}
	if n < 1 || n > maxForks {
		return 0, fault.Invalid("is %d; must be from 1 to %d", n, maxForks).At("n")
	}
	return n, nil
}
