package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	driver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"aloft/internal/account"
	"aloft/internal/control/store"
	"aloft/internal/control/store/sqlite/query"
)

// AddUser implements [store.Accounts].
func (s *Store) AddUser(ctx context.Context, u account.User) (account.User, error) {
	err := s.write(ctx, func(tx *tx) (err error) {
		u.ID, err = tx.q.AddUser(tx.ctx, query.AddUserParams{Email: u.Email, FirstName: u.FirstName, LastName: u.LastName})
		tx.wrote = true
		return err
	})
	if err != nil {
		return account.User{}, fmt.Errorf("add user: %w", err)
	}
	return u, nil
}

// User implements [store.Accounts].
func (s *Store) User(ctx context.Context, id int64) (account.User, error) {
	row, err := s.read.GetUser(ctx, id)
	if err != nil {
		return account.User{}, fmt.Errorf("user %d: %w", id, readError(err))
	}
	return account.User(row), nil
}

// UserByEmail implements [store.Accounts].
func (s *Store) UserByEmail(ctx context.Context, email string) (account.User, error) {
	row, err := s.read.GetUserByEmail(ctx, email)
	if err != nil {
		return account.User{}, fmt.Errorf("user by email: %w", readError(err))
	}
	return account.User(row), nil
}

// AddKey implements [store.Accounts]. The error wraps [store.ErrExists] for a
// key that is there already, and [store.ErrNotFound] for one of an unknown user.
func (s *Store) AddKey(ctx context.Context, k account.APIKey) (account.APIKey, error) {
	if k.CreatedAt.IsZero() {
		k.CreatedAt = time.Now()
	}
	k.CreatedAt, k.ExpiresAt = stamp(k.CreatedAt.UnixNano()), stamp(nanos(k.ExpiresAt))
	err := s.write(ctx, func(tx *tx) (err error) {
		k.ID, err = tx.q.AddKey(tx.ctx, query.AddKeyParams{
			Name: k.Name, UserID: k.UserID, Hash: k.Hash[:], CreatedAt: nanos(k.CreatedAt), ExpiresAt: nanos(k.ExpiresAt),
		})
		if e, ok := errors.AsType[*driver.Error](err); ok {
			switch e.Code() { // either way nothing was written
			case sqlite3.SQLITE_CONSTRAINT_UNIQUE:
				return store.ErrExists
			case sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
				return fmt.Errorf("user %d: %w", k.UserID, store.ErrNotFound)
			}
		}
		tx.wrote = true
		if err == nil && !k.ExpiresAt.IsZero() { // they come often, and nothing else would take them away
			err = tx.q.ForgetKeys(tx.ctx, time.Now().UnixNano())
		}
		return err
	})
	if err != nil {
		return account.APIKey{}, fmt.Errorf("add key: %w", err)
	}
	return k, nil
}

// Key implements [store.Accounts].
func (s *Store) Key(ctx context.Context, hash [32]byte) (account.APIKey, error) {
	row, err := s.read.GetKey(ctx, hash[:])
	if err != nil {
		return account.APIKey{}, fmt.Errorf("key: %w", readError(err))
	}
	return account.APIKey{
		ID: row.ID, Name: row.Name, UserID: row.UserID, Hash: hash, CreatedAt: stamp(row.CreatedAt), ExpiresAt: stamp(row.ExpiresAt),
	}, nil
}

// CountKeys implements [store.Accounts].
func (s *Store) CountKeys(ctx context.Context) (int, error) {
	n, err := s.read.CountKeys(ctx)
	if err != nil {
		return 0, fmt.Errorf("count keys: %w", err)
	}
	return int(n), nil
}
