package agents

import (
	"context"
	"errors"
	"time"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/store"
)

// Expire deletes the agents that have been unused for the retention period that
// applied when they were created. It returns the number of deleted agents.
func (s *API) Expire(ctx context.Context, now time.Time) (deleted int, _ error) {
	h, err := store.Settings(ctx, s.Rules)
	if err != nil || len(h.Versions) == 0 {
		return 0, err
	}
	var errs []error
	q := store.AgentQuery{Page: store.Page{Limit: rest.Batch}, IncludeArchived: true}
	for {
		agents, err := s.Agents.ListAgents(ctx, q)
		if err != nil || len(agents) == 0 {
			return deleted, errors.Join(append(errs, err)...)
		}
		for _, a := range agents {
			if at := DeletedAt(h.At(a.CreatedAt), a); at == nil || now.Before(*at) || s.works(ctx, a) {
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

// DeletedAt returns when an unused agent will be deleted by the settings that
// applied when it was created, or nil if never.
func DeletedAt(settings account.Settings, a agent.Agent) *time.Time {
	if settings.RetentionDays == 0 {
		return nil
	}
	at := rest.Stamp(a.UpdatedAt.Add(time.Duration(settings.RetentionDays) * 24 * time.Hour))
	return &at
}

// works reports whether an agent has an active run. If the run cannot be read,
// it returns true.
func (s *API) works(ctx context.Context, a agent.Agent) bool {
	if a.LatestRunID == "" {
		return false
	}
	run, err := s.Agents.Run(ctx, a.ID, a.LatestRunID)
	return err != nil || run.EndedAt.IsZero()
}
