package agents

import (
	"net/http"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/api/rest"
	"aloft/internal/conversation"
)

type usageTokenUsageJSON struct {
	_ struct{} `json:"-" additionalProperties:"true"`
	rest.Tokens
	TotalTokens int64 `json:"totalTokens" minimum:"0"`
	rest.Cost
}

type runUsageJSON struct {
	_     struct{}            `json:"-" additionalProperties:"true"`
	ID    string              `json:"id" minLength:"1"`
	Usage usageTokenUsageJSON `json:"usage"`
}

type agentUsageResponseJSON struct {
	_          struct{}            `json:"-" additionalProperties:"true"`
	TotalUsage usageTokenUsageJSON `json:"totalUsage"`
	Runs       []runUsageJSON      `json:"runs" nullable:"false"`
}

func (s *API) getUsage(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	ctx := r.Context()
	a, err := s.Agent(ctx, who, r.PathValue("id"))
	if err != nil {
		return err
	}
	var total conversation.Usage
	out := agentUsageResponseJSON{Runs: []runUsageJSON{}}
	add := func(run agent.Run) {
		total = total.Add(run.Usage)
		out.Runs = append(out.Runs, runUsageJSON{ID: run.ID, Usage: usageOf(run.Usage)})
	}
	if id := r.URL.Query().Get("runId"); id != "" {
		run, err := s.Run(ctx, a.ID, id)
		if err != nil {
			return err
		}
		add(run)
	} else if err := s.eachRun(ctx, a.ID, add); err != nil {
		return err
	}
	out.TotalUsage = usageOf(total)
	return rest.WriteJSON(w, http.StatusOK, out)
}

func usageOf(u conversation.Usage) usageTokenUsageJSON {
	return usageTokenUsageJSON{Tokens: rest.TokensOf(u), TotalTokens: u.Total(), Cost: rest.CostOf(u)}
}
