package store

import (
	"context"
	"errors"

	"aloft/internal/secret"
)

// ErrTooMany is of an owner who has as many secrets as they may; it is wrapped.
var ErrTooMany = errors.New("there are too many")

// Secrets keeps sealed secrets; it cannot open them. Its methods are safe for
// concurrent use. What is not there is [ErrNotFound].
type Secrets interface {
	// PutSecret keeps the secret in place of its owner's of the same name. The
	// error wraps [ErrExists] where that name differs in case, and [ErrTooMany]
	// past [secret.MaxPerOwner].
	PutSecret(ctx context.Context, s secret.Sealed) error
	// Secrets returns the owner's, by name.
	Secrets(ctx context.Context, owner secret.Owner) ([]secret.Sealed, error)
	DeleteSecret(ctx context.Context, owner secret.Owner, name string) error
	// DeleteSecrets deletes all of the owner's, who may have none.
	DeleteSecrets(ctx context.Context, owner secret.Owner) error
	// SecretsAfter returns at most limit secrets of everybody, by id, after that id.
	SecretsAfter(ctx context.Context, id string, limit int) ([]secret.Sealed, error)
	// Reseal replaces how the secret of that id is sealed, and nothing else. One
	// that is gone, or has another id by now, is [ErrNotFound].
	Reseal(ctx context.Context, s secret.Sealed) error
	// ExternalID returns the team's, which is made the first time: proposed.
	ExternalID(ctx context.Context, team, proposed string) (string, error)
}
