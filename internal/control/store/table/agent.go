package table

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"aloft/internal/agent"
	"aloft/internal/allowance"
	"aloft/internal/control/store"
	"aloft/internal/control/store/table/query"
	"aloft/internal/secret"
)

// Agent implements [store.Agents].
func (s *Store) Agent(ctx context.Context, id string) (agent.Agent, error) {
	row, err := s.read.GetAgent(ctx, id)
	if err != nil {
		return agent.Agent{}, fmt.Errorf("agent %s: %w", id, readError(err))
	}
	return agentOf(row)
}

// ListAgents implements [store.Agents].
func (s *Store) ListAgents(ctx context.Context, q store.AgentQuery) ([]agent.Agent, error) {
	var archived int64 // lists rows whose value is at most this
	if q.IncludeArchived {
		archived = 1
	}
	beforeTime, beforeID, most := bounds(q.Page)
	var rows []query.Agent
	var err error
	filter := q.AgentFilter
	switch {
	case q.AsksFirst != nil:
		return s.listAsksFirst(ctx, q)
	case !filter.IsZero():
		rows, err = s.find(ctx, q, s.read.FindAgents)
	case q.UserID == 0:
		rows, err = s.read.ListAgents(ctx, query.ListAgentsParams{
			Archived: archived, BeforeTime: beforeTime, BeforeID: beforeID, Most: most,
		})
	default:
		rows, err = s.read.ListAgentsOfUser(ctx, query.ListAgentsOfUserParams{
			UserID: q.UserID, Archived: archived, BeforeTime: beforeTime, BeforeID: beforeID, Most: most,
		})
	}
	if err != nil {
		return nil, fmt.Errorf("list agents: %w", err)
	}
	return agentsOf(rows)
}

// WaitingAgents implements [store.Agents].
func (s *Store) WaitingAgents(ctx context.Context, userID int64, limit int) ([]agent.Agent, error) {
	rows, err := s.read.ListWaitingAgents(ctx, query.ListWaitingAgentsParams{UserID: userID, Most: int64(max(limit, 0))})
	if err != nil {
		return nil, fmt.Errorf("list waiting agents: %w", err)
	}
	return agentsOf(rows)
}

// Held implements [store.Agents].
func (s *Store) Held(ctx context.Context, userID int64) (store.Held, error) {
	agents, err := s.read.CountAgentsOfUser(ctx, userID)
	runs, runsErr := s.read.CountOpenRunsOfUser(ctx, userID)
	snapshots, snapshotsErr := s.read.CountSnapshotsOfUser(ctx, userID)
	if err := errors.Join(err, runsErr, snapshotsErr); err != nil {
		return store.Held{}, fmt.Errorf("count what user %d has: %w", userID, err)
	}
	return store.Held{Agents: int(agents), Running: int(runs), Snapshots: int(snapshots)}, nil
}

// AwaitLayer implements [store.Agents].
func (s *Store) AwaitLayer(ctx context.Context, layer string) (bool, error) {
	n, err := s.read.CountAgentsOnLayer(ctx, layer)
	if err != nil {
		return false, fmt.Errorf("agents on layer %s: %w", layer, err)
	}
	return n > 0, nil
}

func agentsOf(rows []query.Agent) ([]agent.Agent, error) {
	var err error
	agents := make([]agent.Agent, len(rows))
	for i, row := range rows {
		if agents[i], err = agentOf(row); err != nil {
			return nil, err
		}
	}
	return agents, nil
}

// DeleteAgent implements [store.Agents].
func (s *Store) DeleteAgent(ctx context.Context, id string) error {
	return s.db.Write(ctx, store.LeaseOn(id), func(tx *Tx) error {
		n, err := tx.Q.DeleteAgent(tx.Ctx, id)
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("agent %s: %w", id, store.ErrNotFound)
		}
		tx.Wrote = true
		tx.Known.forget(id)
		delete(tx.Known.leases, store.LeaseOn(id))
		tx.News = &News{AgentID: id}
		return errors.Join(
			tx.Q.DeleteRuns(tx.Ctx, id),
			tx.Q.DeleteEvents(tx.Ctx, id),
			tx.Q.DeleteLease(tx.Ctx, store.LeaseOn(id)),
			tx.Q.DeleteSecrets(tx.Ctx, query.DeleteSecretsParams{OwnerKind: string(secret.OfAgent), OwnerID: id}),
			tx.Q.DeleteSecrets(tx.Ctx, query.DeleteSecretsParams{OwnerKind: string(secret.OfForked), OwnerID: id}),
			tx.Q.DeleteSecrets(tx.Ctx, query.DeleteSecretsParams{OwnerKind: string(secret.OfWebhook), OwnerID: id}),
			tx.Q.DeleteSecrets(tx.Ctx, query.DeleteSecretsParams{OwnerKind: string(secret.OfMCPAgent), OwnerID: id}),
			tx.Q.DeleteDeliveries(tx.Ctx, id),
			tx.Q.DeleteWatches(tx.Ctx, id),
			tx.Q.DeleteNarrowing(tx.Ctx, id),
		)
	})
}

// putAgent writes the agent's row, or only its two counters if nothing else has
// changed, which is the case for nearly every append.
func (tx *Tx) putAgent(f *folded) error {
	row, err := agentRow(f.agent)
	if err != nil {
		return err
	}
	old := f.stored
	old.UpdatedAt, old.Head = row.UpdatedAt, row.Head
	if old == row {
		err = tx.Q.TouchAgent(tx.Ctx, query.TouchAgentParams{UpdatedAt: row.UpdatedAt, Head: row.Head, ID: row.ID})
	} else {
		err = tx.Q.PutAgent(tx.Ctx, query.PutAgentParams(row))
	}
	f.stored = row
	tx.Known.keep(f)
	return err
}

func agentRow(a agent.Agent) (query.Agent, error) {
	env, err := json.Marshal(a.Env)
	if err != nil {
		return query.Agent{}, err
	}
	repos, err := json.Marshal(a.Repos)
	if err != nil {
		return query.Agent{}, err
	}
	var approvals, queue, todos, pull, pulls, limit []byte
	if a.Limit != (allowance.Amount{}) {
		if limit, err = json.Marshal(a.Limit); err != nil {
			return query.Agent{}, err
		}
	}
	if a.Pull != (agent.PullRequestOptions{}) {
		if pull, err = json.Marshal(a.Pull); err != nil {
			return query.Agent{}, err
		}
	}
	if len(a.PullRequests) > 0 {
		if pulls, err = json.Marshal(a.PullRequests); err != nil {
			return query.Agent{}, err
		}
	}
	if len(a.Queue) > 0 {
		if queue, err = json.Marshal(a.Queue); err != nil {
			return query.Agent{}, err
		}
	}
	if len(a.Todos) > 0 {
		if todos, err = json.Marshal(a.Todos); err != nil {
			return query.Agent{}, err
		}
	}
	if len(a.Approvals) > 0 {
		if approvals, err = json.Marshal(a.Approvals); err != nil {
			return query.Agent{}, err
		}
	}
	return query.Agent{
		ID: a.ID, Name: a.Name, UserID: a.UserID, Archived: number(a.Archived), Env: string(env), Repos: string(repos),
		Model: a.Model, Class: a.Class, WorkOnCurrentBranch: number(a.WorkOnCurrentBranch),
		CreatedAt: nanos(a.CreatedAt), UpdatedAt: nanos(a.UpdatedAt), LatestRunID: a.LatestRunID, Head: a.Head,
		Paused: number(a.Paused), RunMode: a.RunMode, Approvals: string(approvals), Machine: string(a.Machine), Origin: a.Origin, ForkedFrom: a.ForkedFrom, Layer: a.Layer, RulesAt: a.RulesAt, Queue: string(queue), Todos: string(todos),
		Pull: string(pull), PullRequests: string(pulls), RunLimit: string(limit),
	}, nil
}

func agentOf(row query.Agent) (agent.Agent, error) {
	a := agent.Agent{
		ID: row.ID, Name: row.Name, UserID: row.UserID, Archived: row.Archived != 0,
		Options:   agent.Options{Model: row.Model, Class: row.Class, WorkOnCurrentBranch: row.WorkOnCurrentBranch != 0, RunMode: row.RunMode},
		CreatedAt: stamp(row.CreatedAt), UpdatedAt: stamp(row.UpdatedAt), LatestRunID: row.LatestRunID, Head: row.Head,
		Paused: row.Paused != 0, Machine: agent.MachineState(row.Machine), Source: agent.Source{Origin: row.Origin, ForkedFrom: row.ForkedFrom, Layer: row.Layer, RulesAt: row.RulesAt},
	}
	var waits error
	if row.Approvals != "" {
		waits = json.Unmarshal([]byte(row.Approvals), &a.Approvals)
	}
	if row.Queue != "" {
		waits = errors.Join(waits, json.Unmarshal([]byte(row.Queue), &a.Queue))
	}
	if row.Todos != "" {
		waits = errors.Join(waits, json.Unmarshal([]byte(row.Todos), &a.Todos))
	}
	if row.Pull != "" {
		waits = errors.Join(waits, json.Unmarshal([]byte(row.Pull), &a.Pull))
	}
	if row.RunLimit != "" {
		waits = errors.Join(waits, json.Unmarshal([]byte(row.RunLimit), &a.Limit))
	}
	if row.PullRequests != "" {
		waits = errors.Join(waits, json.Unmarshal([]byte(row.PullRequests), &a.PullRequests))
	}
	err := errors.Join(waits, json.Unmarshal([]byte(row.Env), &a.Env), json.Unmarshal([]byte(row.Repos), &a.Repos))
	if err != nil {
		return a, fmt.Errorf("row of agent %s: %w", row.ID, err)
	}
	return a, nil
}

// bounds returns the key after which a page begins, and the page's length.
func bounds(p store.Page) (time int64, id string, most int64) {
	if p.BeforeTime.IsZero() {
		return math.MaxInt64, "", int64(max(p.Limit, 0))
	}
	return nanos(p.BeforeTime), p.BeforeID, int64(max(p.Limit, 0))
}

func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// readError converts a missing row to [store.ErrNotFound].
func readError(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return store.ErrNotFound
	}
	return err
}
