package api

import (
	"net/http"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/conversation"
)

type usageTokenUsageJSON struct {
	_                struct{} `json:"-" additionalProperties:"true"`
	InputTokens      int64    `json:"inputTokens" minimum:"0" doc:"not including cache reads and writes"`
	OutputTokens     int64    `json:"outputTokens" minimum:"0"`
	CacheWriteTokens int64    `json:"cacheWriteTokens" minimum:"0"`
	CacheReadTokens  int64    `json:"cacheReadTokens" minimum:"0"`
	TotalTokens      int64    `json:"totalTokens" minimum:"0"`
	Cost
}

// Cost is what tokens cost, and how many of them have no known price.
type Cost struct {
	CostUSD        *float64 `json:"costUsd,omitempty" minimum:"0" doc:"in US dollars, at the prices when the tokens were used; absent if no price is known; an addition to the API"`
	UnpricedTokens int64    `json:"unpricedTokens,omitempty" minimum:"0" doc:"tokens not included in costUsd because their price is unknown; an addition to the API"`
}

func costOf(u conversation.Usage) Cost {
	out := Cost{UnpricedTokens: u.Total() - u.Priced}
	if u.Priced > 0 || u.Total() == 0 {
		usd := float64(u.Cost) / 1e9
		out.CostUSD = &usd
	}
	return out
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

func (s *server) getUsage(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	ctx := r.Context()
	a, err := s.agent(ctx, who, r.PathValue("id"))
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
		run, err := s.runOfAgent(ctx, a.ID, id)
		if err != nil {
			return err
		}
		add(run)
	} else if err := s.eachRun(ctx, a.ID, add); err != nil {
		return err
	}
	out.TotalUsage = usageOf(total)
	return writeJSON(w, http.StatusOK, out)
}

func usageOf(u conversation.Usage) usageTokenUsageJSON {
	return usageTokenUsageJSON{
		InputTokens: u.Input, OutputTokens: u.Output, CacheReadTokens: u.CacheRead, CacheWriteTokens: u.CacheWrite, TotalTokens: u.Total(), Cost: costOf(u),
	}
}
