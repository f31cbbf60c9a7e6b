package api

import (
	"context"
	"errors"
	"time"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/store"
)

// expireEvery is how often the server looks for agents whose retention period,
// counted in days, has passed.
const expireEvery = time.Hour

// expire deletes expired agents, and replies kept for repeated requests,
// periodically until ctx ends. It retries failures in the next round.
func (s *server) expire(ctx context.Context, every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		n, err := s.expireOnce(ctx, time.Now())
		if err != nil && ctx.Err() == nil {
			s.Logger.ErrorContext(ctx, "cannot delete all expired agents", "error", err)
		}
		if n > 0 {
			s.Logger.InfoContext(ctx, "deleted expired agents", "count", n)
		}
		if s.Replies != nil {
			if _, err := s.Replies.ForgetReplies(ctx, time.Now().Add(-repliesFor)); err != nil && ctx.Err() == nil {
				s.Logger.ErrorContext(ctx, "cannot delete expired idempotent replies", "error", err)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// expireOnce deletes the agents that have been unused for the retention period
// that applied when they were created. It returns how many it deleted.
func (s *server) expireOnce(ctx context.Context, now time.Time) (deleted int, _ error) {
	h, err := store.Settings(ctx, s.Rules)
	if err != nil || len(h.Versions) == 0 {
		return 0, err
	}
	var errs []error
	q := store.AgentQuery{Page: store.Page{Limit: batch}, IncludeArchived: true}
	for {
		agents, err := s.Agents.ListAgents(ctx, q)
		if err != nil || len(agents) == 0 {
			return deleted, errors.Join(append(errs, err)...)
		}
		for _, a := range agents {
			if at := deletedAt(h.At(a.CreatedAt), a); at == nil || now.Before(*at) || s.works(ctx, a) {
				continue
			}
			if err := s.remove(ctx, a.ID); err != nil {
				errs = append(errs, err)
				continue
			}
			deleted++
		}
		last := agents[len(agents)-1]
		q.BeforeTime, q.BeforeID = last.CreatedAt, last.ID
	}
}

// deletedAt returns when an unused agent will be deleted by the settings that
// applied when it was created, or nil if never.
func deletedAt(settled account.Settings, a agent.Agent) *time.Time {
	if settled.RetentionDays == 0 {
		return nil
	}
	at := stamp(a.UpdatedAt.Add(time.Duration(settled.RetentionDays) * 24 * time.Hour))
	return &at
}

// works reports whether an agent has an active run. If the run cannot be read,
// it returns true.
func (s *server) works(ctx context.Context, a agent.Agent) bool {
	if a.LatestRunID == "" {
		return false
	}
	run, err := s.Agents.Run(ctx, a.ID, a.LatestRunID)
	return err != nil || run.EndedAt.IsZero()
}
