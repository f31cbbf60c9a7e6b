package store

import (
	"context"
	"errors"

	"aloft/internal/secret"
)

// ErrTooMany is wrapped by the error for an owner who has the maximum number of
// secrets.
var ErrTooMany = errors.New("too many")

// Secrets stores encrypted secrets, which it cannot decrypt. Its methods are
// safe for concurrent use. They return [ErrNotFound] if something does not
// exist.
type Secrets interface {
	// PutSecret stores the secret, replacing the owner's secret of the same
	// name. The error wraps [ErrExists] if the owner has the name in different
	// case, and [ErrTooMany] above [secret.MaxPerOwner].
	PutSecret(ctx context.Context, s secret.Sealed) error
	// Secrets returns the owner's secrets, sorted by name.
	Secrets(ctx context.Context, owner secret.Owner) ([]secret.Sealed, error)
	DeleteSecret(ctx context.Context, owner secret.Owner, name string) error
	// DeleteSecrets deletes all secrets of the owner, if any.
	DeleteSecrets(ctx context.Context, owner secret.Owner) error
	// SecretsAfter returns at most limit secrets of all owners with ids greater
	// than id, sorted by id.
	SecretsAfter(ctx context.Context, id string, limit int) ([]secret.Sealed, error)
	// Reseal replaces only the encryption of the secret with the given id. It
	// returns [ErrNotFound] if the secret was deleted or replaced.
	Reseal(ctx context.Context, s secret.Sealed) error
	// ExternalID returns the team's external ID. If none is stored yet, it
	// stores and returns proposed.
	ExternalID(ctx context.Context, team, proposed string) (string, error)
}
