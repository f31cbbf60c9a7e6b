package table

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"aloft/internal/agent"
	"aloft/internal/control/store"
	"aloft/internal/control/store/table/query"
	"aloft/internal/secret"
)

// addDeliveries adds the webhook deliveries for the events.
func (tx *Tx) addDeliveries(agentID string, events []agent.Event) error {
	for _, e := range events {
		kind, about := store.StatusChange, e.RunID
		switch b := e.Body.(type) {
		case *agent.RunEnded:
		case *agent.ApprovalAsked:
			kind, about = store.ApprovalRequested, b.Approval.ID
		default:
			continue
		}
		n, err := tx.Q.CountSecrets(tx.Ctx, query.CountSecretsParams{OwnerKind: string(secret.OfWebhook), OwnerID: agentID})
		if err != nil || n == 0 {
			return err
		}
		if wanted, err := tx.webhookHears(agentID, kind); err != nil {
			return err
		} else if !wanted {
			continue
		}
		err = tx.Q.AddDelivery(tx.Ctx, query.AddDeliveryParams{
			ID:    uuid.NewSHA1(uuid.NameSpaceOID, []byte(agentID+" "+about)).String(),
			Event: string(kind), Seq: e.Seq, AgentID: agentID, RunID: e.RunID, CreatedAt: nanos(e.Time), Until: nanos(e.Time.Add(store.DeliverWithin)),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// webhookHears reports whether the agent's webhook gets events of the given
// kind.
func (tx *Tx) webhookHears(agentID string, kind store.DeliveryEvent) (bool, error) {
	rows, err := tx.Q.ReadEvents(tx.Ctx, query.ReadEventsParams{AgentID: agentID, Most: 1})
	if err != nil || len(rows) == 0 {
		return false, err
	}
	body, err := agent.Decode(rows[0].Kind, rows[0].Data)
	if err != nil {
		return false, err
	}
	made, ok := body.(*agent.Created)
	return ok && (len(made.WebhookEvents) == 0 || slices.Contains(made.WebhookEvents, string(kind))), nil
}

// Deliveries implements [store.Deliveries].
func (s *Store) Deliveries(ctx context.Context, agentID string, p store.Page) ([]store.Delivery, error) {
	beforeTime, beforeID, most := bounds(p)
	rows, err := s.read.ListDeliveries(ctx, query.ListDeliveriesParams{AgentID: agentID, BeforeTime: beforeTime, BeforeID: beforeID, Most: most})
	if err != nil {
		return nil, fmt.Errorf("list deliveries of %s: %w", agentID, err)
	}
	return deliveriesOf(rows), nil
}

// ClaimDeliveries implements [store.Deliveries].
func (s *Store) ClaimDeliveries(ctx context.Context, owner string, again time.Duration, limit int) ([]store.Delivery, error) {
	now := time.Now()
	due := query.DueDeliveriesParams{Now: nanos(now), Most: int64(max(limit, 0))}
	rows, err := claimDue(ctx, s, deliveries, due, (*query.Queries).DueDeliveries, func(tx *Tx, row query.WebhookDelivery) error {
		return tx.Q.ClaimDelivery(tx.Ctx, query.ClaimDeliveryParams{Owner: owner, NextAt: nanos(now.Add(again)), ID: row.ID})
	})
	if err != nil {
		return nil, fmt.Errorf("claim deliveries: %w", err)
	}
	return deliveriesOf(rows), nil
}

// ReleaseDeliveries implements [store.Deliveries].
func (s *Store) ReleaseDeliveries(ctx context.Context, owner string) error {
	release := query.ReleaseDeliveriesParams{Now: time.Now().UnixNano(), Owner: owner}
	return writeOne(ctx, s, deliveries, "release deliveries", release, (*query.Queries).ReleaseDeliveries)
}

// PutAttempt implements [store.Deliveries].
func (s *Store) PutAttempt(ctx context.Context, d store.Delivery) error {
	err := s.db.Write(ctx, deliveries, func(tx *Tx) error {
		n, err := tx.Q.PutAttempt(tx.Ctx, query.PutAttemptParams{
			State: string(d.State), Attempts: int64(d.Attempts), NextAt: nanos(d.NextAt), LastAt: nanos(d.LastAt),
			LastStatus: int64(d.LastStatus), LastError: d.LastError, ID: d.ID,
		})
		tx.Wrote = n > 0
		return requireRow(n, err)
	})
	if err != nil {
		return fmt.Errorf("record delivery %s: %w", d.ID, err)
	}
	return nil
}

// Redeliver implements [store.Deliveries].
func (s *Store) Redeliver(ctx context.Context, agentID, id string) error {
	now := time.Now()
	err := s.db.Write(ctx, deliveries, func(tx *Tx) error {
		n, err := tx.Q.Redeliver(tx.Ctx, query.RedeliverParams{Now: nanos(now), Until: nanos(now.Add(store.DeliverWithin)), ID: id, AgentID: agentID})
		tx.Wrote = n > 0
		return requireRow(n, err)
	})
	if err != nil {
		return fmt.Errorf("redeliver %s: %w", id, err)
	}
	return nil
}

func deliveriesOf(rows []query.WebhookDelivery) []store.Delivery {
	all := make([]store.Delivery, len(rows))
	for i, row := range rows {
		all[i] = store.Delivery{
			ID: row.ID, Event: store.DeliveryEvent(row.Event), Seq: row.Seq, AgentID: row.AgentID, RunID: row.RunID, CreatedAt: stamp(row.CreatedAt), State: store.DeliveryState(row.State),
			Attempts: int(row.Attempts), NextAt: stamp(row.NextAt), Until: stamp(row.Until), LastAt: stamp(row.LastAt),
			LastStatus: int(row.LastStatus), LastError: row.LastError,
		}
	}
	return all
}
