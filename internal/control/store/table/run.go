package table

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/store"
	"aloft/internal/control/store/table/query"
	"aloft/internal/conversation"
)

// Run implements [store.Agents].
func (s *Store) Run(ctx context.Context, agentID, runID string) (agent.Run, error) {
	row, err := s.read.GetRun(ctx, query.GetRunParams{AgentID: agentID, ID: runID})
	if err != nil {
		return agent.Run{}, fmt.Errorf("run %s of agent %s: %w", runID, agentID, readError(err))
	}
	return runOf(row)
}

// ListRuns implements [store.Agents].
func (s *Store) ListRuns(ctx context.Context, agentID string, q store.Page) ([]agent.Run, error) {
	beforeTime, beforeID, most := bounds(q)
	rows, err := s.read.ListRuns(ctx, query.ListRunsParams{
		AgentID: agentID, BeforeTime: beforeTime, BeforeID: beforeID, Most: most,
	})
	if err != nil {
		return nil, fmt.Errorf("list runs of %s: %w", agentID, err)
	}
	if len(rows) == 0 { // the agent may not exist
		if _, err := s.read.GetHead(ctx, agentID); err != nil {
			return nil, fmt.Errorf("agent %s: %w", agentID, readError(err))
		}
	}
	return runsOf(rows)
}

// OpenRuns implements [store.Agents].
func (s *Store) OpenRuns(ctx context.Context) ([]agent.Run, error) {
	rows, err := s.read.OpenRuns(ctx)
	if err != nil {
		return nil, fmt.Errorf("list open runs: %w", err)
	}
	return runsOf(rows)
}

// Usage implements [store.Usage].
func (s *Store) Usage(ctx context.Context, userID int64, from, to time.Time) ([]store.UsageRow, error) {
	rows, err := s.read.SumUsage(ctx, query.SumUsageParams{UserID: userID, Since: nanos(from), Until: nanos(to)})
	if err != nil {
		return nil, fmt.Errorf("sum what was used: %w", err)
	}
	out := make([]store.UsageRow, len(rows))
	for i, r := range rows {
		out[i] = store.UsageRow{
			Day: r.Day, UserID: r.UserID, Repo: r.Repo, Model: r.Model, Runs: r.Runs, Turns: r.Turns,
			Usage: conversation.Usage{Input: r.Input, Output: r.Output, CacheRead: r.CacheRead, CacheWrite: r.CacheWrite, Cost: r.Cost, Priced: r.Priced},
		}
	}
	return out, nil
}

// putRun writes the run's row, or only its two counters if nothing else has
// changed.
func (tx *Tx) putRun(r *foldedRun) error {
	row, err := runRow(r.run)
	if err != nil {
		return err
	}
	old := r.stored
	old.UpdatedAt, old.LastSeq = row.UpdatedAt, row.LastSeq
	if old == row {
		err = tx.Q.TouchRun(tx.Ctx, query.TouchRunParams{
			UpdatedAt: row.UpdatedAt, LastSeq: row.LastSeq, AgentID: row.AgentID, ID: row.ID,
		})
	} else {
		err = tx.Q.PutRun(tx.Ctx, query.PutRunParams(row))
	}
	r.stored = row
	return err
}

func runRow(r agent.Run) (query.Run, error) {
	failure, err1 := json.Marshal(r.Failure)
	branches, err2 := json.Marshal(r.Branches)
	usage, err3 := json.Marshal(r.Usage)
	limit, err4 := json.Marshal(r.Limit)
	clock, err5 := json.Marshal(r.Clock)
	privacy, err6 := json.Marshal(r.Privacy)
	evidence, err7 := json.Marshal(r.Evidence)
	return query.Run{
		AgentID: r.AgentID, ID: r.ID, Status: string(r.Status), CreatedAt: nanos(r.CreatedAt), UpdatedAt: nanos(r.UpdatedAt),
		StartedAt: nanos(r.StartedAt), EndedAt: nanos(r.EndedAt), Result: r.Result, Failure: string(failure),
		Branches: string(branches), Usage: string(usage), Turns: int64(r.Turns), FirstSeq: r.FirstSeq, LastSeq: r.LastSeq,
		RunLimit: string(limit), Clock: string(clock), Privacy: string(privacy),
		Outcome: string(r.Outcome), Evidence: string(evidence),
	}, errors.Join(err1, err2, err3, err4, err5, err6, err7)
}

func runOf(row query.Run) (agent.Run, error) {
	r := agent.Run{
		ID: row.ID, AgentID: row.AgentID, Status: agent.Status(row.Status), CreatedAt: stamp(row.CreatedAt),
		UpdatedAt: stamp(row.UpdatedAt), StartedAt: stamp(row.StartedAt), Ending: agent.Ending{EndedAt: stamp(row.EndedAt), Result: row.Result, Outcome: agent.Outcome(row.Outcome)},
		Consumption: agent.Consumption{Turns: int(row.Turns)}, FirstSeq: row.FirstSeq, LastSeq: row.LastSeq,
	}
	err := errors.Join(
		json.Unmarshal([]byte(row.Failure), &r.Failure),
		json.Unmarshal([]byte(row.Branches), &r.Branches),
		json.Unmarshal([]byte(row.Usage), &r.Usage),
		json.Unmarshal([]byte(row.RunLimit), &r.Limit),
		json.Unmarshal([]byte(row.Clock), &r.Clock),
		json.Unmarshal([]byte(row.Privacy), &r.Privacy),
		json.Unmarshal([]byte(row.Evidence), &r.Evidence),
	)
	if err != nil {
		return r, fmt.Errorf("row of run %s: %w", row.ID, err)
	}
	return r, nil
}

func runsOf(rows []query.Run) ([]agent.Run, error) {
	runs := make([]agent.Run, len(rows))
	for i, row := range rows {
		var err error
		if runs[i], err = runOf(row); err != nil {
			return nil, err
		}
	}
	return runs, nil
}
