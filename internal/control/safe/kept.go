package safe

import (
	"context"
	"errors"
	"time"

	"aloft/internal/control/store"
	"aloft/internal/fault"
	"aloft/internal/secret"
)

// Keep encrypts and stores a value of the server itself, and replaces the
// owner's earlier value of that name. Names are not case-sensitive.
func (s *Safe) Keep(ctx context.Context, owner secret.Owner, name, value string) (secret.Secret, error) {
	of := secret.Secret{ID: secret.NewID(), Name: name, Type: secret.Runtime, Owner: owner, CreatedAt: time.Now().UTC().Truncate(time.Millisecond)}
	sealed, err := s.seal(ctx, of, value)
	if err != nil {
		return of, err
	}
	err = s.Store.PutSecret(ctx, sealed)
	if errors.Is(err, store.ErrTooMany) {
		return of, fault.Exhausted("the limit of %d is reached", secret.MaxPerOwner).Hint("delete what is not used")
	}
	return of, err
}

// Kept decrypts the values that the owner has stored with [Safe.Keep].
func (s *Safe) Kept(ctx context.Context, owner secret.Owner) ([]secret.Opened, error) {
	sealed, err := s.Store.Secrets(ctx, owner)
	if err != nil {
		return nil, err
	}
	out := make([]secret.Opened, len(sealed))
	for i, one := range sealed {
		value, err := s.open(ctx, one)
		if err != nil {
			return nil, err
		}
		out[i] = secret.Opened{Secret: one.Secret, Value: value}
	}
	return out, nil
}

// Drop removes a value stored by [Safe.Keep]. It returns a fault if there is
// none.
func (s *Safe) Drop(ctx context.Context, owner secret.Owner, name string) error {
	err := s.Store.DeleteSecret(ctx, owner, name)
	if errors.Is(err, store.ErrNotFound) {
		return fault.NotFound("there is no value of that name")
	}
	return err
}

// SealMCP encrypts the MCP servers of a new agent, as part of the append that
// creates it.
func (s *Safe) SealMCP(ctx context.Context, agentID, name, value string) (secret.Sealed, error) {
	return s.seal(ctx, secret.Secret{
		ID: secret.NewID(), Name: name, Type: secret.Runtime, Owner: secret.Owner{Kind: secret.OfMCPAgent, ID: agentID},
		CreatedAt: time.Now().UTC().Truncate(time.Millisecond),
	}, value)
}
