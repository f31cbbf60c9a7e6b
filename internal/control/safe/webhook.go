package safe

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"aloft/internal/fault"
	"aloft/internal/secret"
)

// A Webhook is the URL to notify of an agent's runs, and the signing secret.
// Both are stored encrypted, since many webhook URLs are secret themselves.
type Webhook struct {
	URL    string `json:"url"`
	Secret string `json:"secret,omitempty"` // "" for none
}

func webhookOf(agentID string) secret.Owner { return secret.Owner{Kind: secret.OfWebhook, ID: agentID} }

// SealWebhook encrypts the webhook of a new agent, as part of the append that
// creates it.
func (s *Safe) SealWebhook(ctx context.Context, agentID, url, key string) (secret.Sealed, error) {
	value, err := json.Marshal(Webhook{url, key})
	if err != nil {
		return secret.Sealed{}, err
	}
	return s.seal(ctx, secret.Secret{
		ID: secret.NewID(), Name: "webhook", Type: secret.Runtime, Owner: webhookOf(agentID), CreatedAt: time.Now().UTC().Truncate(time.Millisecond),
	}, string(value))
}

// Webhook returns the agent's webhook. The error is a fault of kind NotFound if
// it has none.
func (s *Safe) Webhook(ctx context.Context, agentID string) (Webhook, error) {
	var hook Webhook
	sealed, err := s.Store.Secrets(ctx, webhookOf(agentID))
	if err != nil {
		return hook, err
	}
	if len(sealed) == 0 {
		return hook, fault.NotFound("the agent %s has no webhook", agentID)
	}
	value, err := s.open(ctx, sealed[0])
	if err != nil {
		return hook, err
	}
	if err := json.Unmarshal([]byte(value), &hook); err != nil {
		return hook, fmt.Errorf("webhook of %s: %w", agentID, err)
	}
	return hook, nil
}
