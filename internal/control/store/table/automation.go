package table

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"aloft/internal/control/store"
	"aloft/internal/control/store/table/query"
)

// AddAutomation implements [store.Automations].
func (s *Store) AddAutomation(ctx context.Context, a store.Automation) error {
	data, err := json.Marshal(a)
	if err != nil {
		return err
	}
	err = s.db.Write(ctx, automations, func(tx *Tx) error {
		n, err := tx.Q.AddAutomation(tx.Ctx, query.AddAutomationParams{
			ID: a.ID, UserID: a.UserID, Repo: a.Repo, OnEvent: number(heard(a)), CreatedAt: nanos(a.CreatedAt), DueAt: nanos(a.DueAt), Data: string(data),
		})
		if tx.Wrote = n > 0; err == nil && n == 0 {
			err = store.ErrExists
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("add automation %s: %w", a.ID, err)
	}
	return nil
}

// heard reports whether events start the automation.
func heard(a store.Automation) bool { return a.OnEvent && a.State == store.AutomationActive }

// Automation implements [store.Automations].
func (s *Store) Automation(ctx context.Context, id string) (a store.Automation, err error) {
	data, err := s.read.GetAutomation(ctx, id)
	return a, decodeRow(data, err, &a, "automation")
}

// decodeRow decodes a row of JSON.
func decodeRow(data string, err error, into any, what string) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, readError(err))
	}
	return json.Unmarshal([]byte(data), into)
}

// Automations implements [store.Automations].
func (s *Store) Automations(ctx context.Context, q store.AutomationQuery) ([]store.Automation, error) {
	return pageOf[store.Automation](s.read.ListAutomations(ctx, query.ListAutomationsParams{
		UserID: q.UserID, BeforeTime: before(q.Page), BeforeID: q.BeforeID, Most: int64(max(q.Limit, 0)),
	}))
}

// EventAutomations implements [store.Automations].
func (s *Store) EventAutomations(ctx context.Context) ([]store.Automation, error) {
	return pageOf[store.Automation](s.read.ListEventAutomations(ctx))
}

// RepoAutomations implements [store.Automations].
func (s *Store) RepoAutomations(ctx context.Context, repo string) ([]store.Automation, error) {
	return pageOf[store.Automation](s.read.ListRepoAutomations(ctx, repo))
}

// DeleteAutomation implements [store.Automations].
func (s *Store) DeleteAutomation(ctx context.Context, id string) error {
	err := s.db.Write(ctx, automations, func(tx *Tx) error {
		tx.Wrote = true
		if err := tx.Q.DeleteAutomationStarts(tx.Ctx, id); err != nil {
			return err
		}
		return requireRow(tx.Q.DeleteAutomation(tx.Ctx, id))
	})
	if err != nil {
		return fmt.Errorf("delete automation %s: %w", id, err)
	}
	return nil
}

// ChangeAutomation implements [store.Automations].
func (s *Store) ChangeAutomation(ctx context.Context, id string, change func(*store.Automation) ([]store.AutomationStart, error)) (a store.Automation, err error) {
	err = s.db.Write(ctx, automations, func(tx *Tx) error {
		a = store.Automation{}
		data, err := tx.Q.GetAutomation(tx.Ctx, id)
		if err := decodeRow(data, err, &a, "read"); err != nil {
			return err
		}
		starts, err := change(&a)
		if err != nil {
			return err
		}
		for _, start := range starts {
			if _, err := tx.addStart(start); err != nil {
				return err
			}
		}
		return tx.putAutomation(a)
	})
	if err != nil {
		return store.Automation{}, fmt.Errorf("change automation %s: %w", id, err)
	}
	return a, nil
}

func (tx *Tx) putAutomation(a store.Automation) error {
	data, err := json.Marshal(a)
	if err != nil {
		return err
	}
	due := a.DueAt
	if a.State != store.AutomationActive {
		due = time.Time{}
	}
	tx.Wrote = true
	return requireRow(tx.Q.PutAutomation(tx.Ctx, query.PutAutomationParams{ID: a.ID, UserID: a.UserID, OnEvent: number(heard(a)), DueAt: nanos(due), Data: string(data)}))
}

// ClaimAutomations implements [store.Automations].
func (s *Store) ClaimAutomations(ctx context.Context, owner string, again time.Duration, limit int) ([]store.Automation, error) {
	now := time.Now()
	due := query.DueAutomationsParams{Now: nanos(now), Most: int64(max(limit, 0))}
	rows, err := claimDue(ctx, s, automations, due, (*query.Queries).DueAutomations, func(tx *Tx, row query.DueAutomationsRow) error {
		return tx.Q.ClaimAutomation(tx.Ctx, query.ClaimAutomationParams{Owner: owner, Until: nanos(now.Add(again)), ID: row.ID})
	})
	data := make([]string, len(rows))
	for i, row := range rows {
		data[i] = row.Data
	}
	return pageOf[store.Automation](data, err)
}

// ReleaseAutomations implements [store.Automations].
func (s *Store) ReleaseAutomations(ctx context.Context, owner string) error {
	return errors.Join(
		writeOne(ctx, s, automations, "release automations", owner, (*query.Queries).ReleaseAutomations),
		writeOne(ctx, s, automations, "release starts", owner, (*query.Queries).ReleaseStarts),
	)
}

// AddStart implements [store.Automations].
func (s *Store) AddStart(ctx context.Context, of store.AutomationStart) (added bool, err error) {
	err = s.db.Write(ctx, automations, func(tx *Tx) (err error) {
		if _, err = tx.Q.GetAutomation(tx.Ctx, of.AutomationID); err != nil {
			return readError(err)
		}
		added, err = tx.addStart(of)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("add start %s: %w", of.ID, err)
	}
	return added, nil
}

func (tx *Tx) addStart(of store.AutomationStart) (bool, error) {
	data, err := json.Marshal(of)
	if err != nil {
		return false, err
	}
	n, err := tx.Q.AddAutomationStart(tx.Ctx, query.AddAutomationStartParams{
		ID: of.ID, AutomationID: of.AutomationID, State: string(of.State), CreatedAt: nanos(of.CreatedAt), DueAt: nanos(of.DueAt), Cost: costOf(of), Data: string(data),
	})
	tx.Wrote = tx.Wrote || n > 0
	return n > 0, err
}

// costOf returns the cost of a start: at most, while its agent works.
func costOf(of store.AutomationStart) int64 {
	if of.State.Working() {
		return max(of.Cost, of.Limit)
	}
	return of.Cost
}

// AutomationStart implements [store.Automations].
func (s *Store) AutomationStart(ctx context.Context, id string) (of store.AutomationStart, err error) {
	data, err := s.read.GetAutomationStart(ctx, id)
	return of, decodeRow(data, err, &of, "start")
}

// AutomationStarts implements [store.Automations].
func (s *Store) AutomationStarts(ctx context.Context, automationID string, p store.Page) ([]store.AutomationStart, error) {
	return pageOf[store.AutomationStart](s.read.ListAutomationStarts(ctx, query.ListAutomationStartsParams{
		AutomationID: automationID, BeforeTime: before(p), BeforeID: p.BeforeID, Most: int64(max(p.Limit, 0)),
	}))
}

// ClaimStarts implements [store.Automations].
func (s *Store) ClaimStarts(ctx context.Context, owner string, again time.Duration, limit int) ([]store.AutomationStart, error) {
	now := time.Now()
	due := query.DueStartsParams{Now: nanos(now), Most: int64(max(limit, 0))}
	rows, err := claimDue(ctx, s, automations, due, (*query.Queries).DueStarts, func(tx *Tx, row query.DueStartsRow) error {
		return tx.Q.ClaimStart(tx.Ctx, query.ClaimStartParams{Owner: owner, Until: nanos(now.Add(again)), ID: row.ID})
	})
	data := make([]string, len(rows))
	for i, row := range rows {
		data[i] = row.Data
	}
	return pageOf[store.AutomationStart](data, err)
}

// ChangeStart implements [store.Automations].
func (s *Store) ChangeStart(ctx context.Context, id string, since time.Time, change func(*store.StartChange) error) (of store.AutomationStart, err error) {
	err = s.db.Write(ctx, automations, func(tx *Tx) error {
		c, err := tx.startChange(id, since)
		if err != nil {
			return err
		}
		a := *c.Automation
		if err := change(&c); err != nil {
			return err
		}
		of = *c.Start
		data, err := json.Marshal(of)
		if err != nil {
			return err
		}
		tx.Wrote = true
		if err := requireRow(tx.Q.PutAutomationStart(tx.Ctx, query.PutAutomationStartParams{
			ID: of.ID, State: string(of.State), DueAt: nanos(of.DueAt), Cost: costOf(of), Data: string(data),
		})); err != nil {
			return err
		}
		if c.Automation.State == a.State && c.Automation.Failures == a.Failures && c.Automation.Reason == a.Reason {
			return nil
		}
		return tx.putAutomation(*c.Automation)
	})
	if err != nil {
		return store.AutomationStart{}, fmt.Errorf("change start %s: %w", id, err)
	}
	return of, nil
}

// startChange reads what a change of a start may depend on.
func (tx *Tx) startChange(id string, since time.Time) (c store.StartChange, err error) {
	c.Automation, c.Start = new(store.Automation), new(store.AutomationStart)
	data, err := tx.Q.GetAutomationStart(tx.Ctx, id)
	if err := decodeRow(data, err, c.Start, "read"); err != nil {
		return c, err
	}
	data, err = tx.Q.GetAutomation(tx.Ctx, c.Start.AutomationID)
	if err := decodeRow(data, err, c.Automation, "read its automation"); err != nil {
		return c, err
	}
	all, err := pageOf[store.AutomationStart](tx.Q.ListOpenStarts(tx.Ctx, c.Start.AutomationID))
	if err != nil {
		return c, err
	}
	for _, other := range all {
		if other.ID != id {
			c.Open = append(c.Open, other)
		}
	}
	c.Spent, err = tx.Q.SumStartCosts(tx.Ctx, query.SumStartCostsParams{AutomationID: c.Start.AutomationID, Since: nanos(since), ID: id})
	return c, err
}

// TrimStarts implements [store.Automations].
func (s *Store) TrimStarts(ctx context.Context, before time.Time) error {
	return writeOne(ctx, s, automations, "trim starts", nanos(before), (*query.Queries).TrimStarts)
}

// SetNarrowing implements [store.Automations].
func (s *Store) SetNarrowing(ctx context.Context, agentID string, narrowing json.RawMessage) error {
	err := s.db.Write(ctx, alone, func(tx *Tx) error {
		n, err := tx.Q.SetNarrowing(tx.Ctx, query.SetNarrowingParams{AgentID: agentID, Data: string(narrowing)})
		tx.Wrote = n > 0
		return err
	})
	if err != nil {
		return fmt.Errorf("restrict agent %s: %w", agentID, err)
	}
	return nil
}

// Narrowing implements [store.Automations].
func (s *Store) Narrowing(ctx context.Context, agentID string) (json.RawMessage, error) {
	data, err := s.read.GetNarrowing(ctx, agentID)
	if err = readError(err); errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the restrictions of agent %s: %w", agentID, err)
	}
	return json.RawMessage(data), nil
}
