package table

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"aloft/internal/control/store"
	"aloft/internal/control/store/table/query"
	"aloft/internal/secret"
)

// PutSecret implements [store.Secrets].
func (s *Store) PutSecret(ctx context.Context, sealed secret.Sealed) error {
	row, err := secretRow(sealed)
	if err != nil {
		return err
	}
	err = s.db.Write(ctx, secrets, func(tx *Tx) error {
		old, err := tx.Q.GetSecret(tx.Ctx, query.GetSecretParams{OwnerKind: row.OwnerKind, OwnerID: row.OwnerID, Folded: row.Folded})
		switch {
		case errors.Is(err, sql.ErrNoRows):
			n, err := tx.Q.CountSecrets(tx.Ctx, query.CountSecretsParams{OwnerKind: row.OwnerKind, OwnerID: row.OwnerID})
			if err != nil {
				return err
			}
			if n >= secret.MaxPerOwner {
				return store.ErrTooMany
			}
		case err != nil:
			return err
		case old.Name != row.Name:
			return fmt.Errorf("%s: %w", old.Name, store.ErrExists)
		}
		tx.Wrote = true
		return tx.Q.PutSecret(tx.Ctx, query.PutSecretParams(row))
	})
	if err != nil {
		return fmt.Errorf("put secret %s: %w", sealed.Name, err)
	}
	return nil
}

// Secrets implements [store.Secrets].
func (s *Store) Secrets(ctx context.Context, owner secret.Owner) ([]secret.Sealed, error) {
	rows, err := s.read.ListSecrets(ctx, query.ListSecretsParams{OwnerKind: string(owner.Kind), OwnerID: owner.ID})
	if err != nil {
		return nil, fmt.Errorf("list secrets: %w", err)
	}
	return secretsOf(rows)
}

// SecretsAfter implements [store.Secrets].
func (s *Store) SecretsAfter(ctx context.Context, id string, limit int) ([]secret.Sealed, error) {
	rows, err := s.read.SecretsAfter(ctx, query.SecretsAfterParams{AfterID: id, Most: int64(max(limit, 0))})
	if err != nil {
		return nil, fmt.Errorf("list secrets: %w", err)
	}
	return secretsOf(rows)
}

// DeleteSecret implements [store.Secrets].
func (s *Store) DeleteSecret(ctx context.Context, owner secret.Owner, name string) error {
	err := s.db.Write(ctx, secrets, func(tx *Tx) error {
		n, err := tx.Q.DeleteSecret(tx.Ctx, query.DeleteSecretParams{OwnerKind: string(owner.Kind), OwnerID: owner.ID, Folded: secret.Fold(name)})
		tx.Wrote = n > 0
		return requireRow(n, err)
	})
	if err != nil {
		return fmt.Errorf("delete secret: %w", err)
	}
	return nil
}

// DeleteSecrets implements [store.Secrets].
func (s *Store) DeleteSecrets(ctx context.Context, owner secret.Owner) error {
	err := s.db.Write(ctx, secrets, func(tx *Tx) error {
		tx.Wrote = true
		return tx.Q.DeleteSecrets(tx.Ctx, query.DeleteSecretsParams{OwnerKind: string(owner.Kind), OwnerID: owner.ID})
	})
	if err != nil {
		return fmt.Errorf("delete secrets: %w", err)
	}
	return nil
}

// Reseal implements [store.Secrets].
func (s *Store) Reseal(ctx context.Context, sealed secret.Sealed) error {
	err := s.db.Write(ctx, secrets, func(tx *Tx) error {
		n, err := tx.Q.ResealSecret(tx.Ctx, query.ResealSecretParams{Keeper: sealed.Keeper, Key: sealed.Key, Box: sealed.Box, ID: sealed.ID})
		tx.Wrote = n > 0
		return requireRow(n, err)
	})
	if err != nil {
		return fmt.Errorf("reseal secret %s: %w", sealed.ID, err)
	}
	return nil
}

// ExternalID implements [store.Secrets].
func (s *Store) ExternalID(ctx context.Context, team, proposed string) (id string, err error) {
	id, err = s.read.ExternalID(ctx, team)
	if !errors.Is(err, sql.ErrNoRows) {
		return id, err
	}
	err = s.db.Write(ctx, secrets, func(tx *Tx) (err error) {
		tx.Wrote = true
		if err = tx.Q.AddExternalID(tx.Ctx, query.AddExternalIDParams{TeamID: team, ID: proposed}); err == nil {
			id, err = tx.Q.ExternalID(tx.Ctx, team)
		}
		return err
	})
	return id, err
}

// putSealed stores the secrets of a new agent.
func (tx *Tx) putSealed(all []secret.Sealed) error {
	for _, sealed := range all {
		row, err := secretRow(sealed)
		if err != nil {
			return err
		}
		if err := tx.Q.PutSecret(tx.Ctx, query.PutSecretParams(row)); err != nil {
			return err
		}
	}
	return nil
}

// requireRow returns [store.ErrNotFound] if a change affected no row.
func requireRow(rows int64, err error) error {
	if err == nil && rows == 0 {
		return store.ErrNotFound
	}
	return err
}

func secretRow(s secret.Sealed) (query.Secret, error) {
	repos, err := json.Marshal(s.Repos)
	return query.Secret{
		OwnerKind: string(s.Owner.Kind), OwnerID: s.Owner.ID, Folded: secret.Fold(s.Name), ID: s.ID, Name: s.Name, Type: string(s.Type),
		Repos: string(repos), CreatedAt: nanos(s.CreatedAt), Keeper: s.Keeper, Key: s.Key, Box: s.Box,
	}, err
}

func secretsOf(rows []query.Secret) ([]secret.Sealed, error) {
	all := make([]secret.Sealed, len(rows))
	for i, row := range rows {
		all[i] = secret.Sealed{
			Secret: secret.Secret{
				ID: row.ID, Name: row.Name, Type: secret.Type(row.Type), CreatedAt: stamp(row.CreatedAt),
				Owner: secret.Owner{Kind: secret.Kind(row.OwnerKind), ID: row.OwnerID},
			},
			Keeper: row.Keeper, Key: row.Key, Box: row.Box,
		}
		if err := json.Unmarshal([]byte(row.Repos), &all[i].Repos); err != nil {
			return nil, fmt.Errorf("row of secret %s: %w", row.ID, err)
		}
	}
	return all, nil
}
