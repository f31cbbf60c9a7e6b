package sqlite

import (
	"context"
	"database/sql"
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
	if u.Role == "" {
		u.Role = account.Member
	}
	err := s.write(ctx, func(tx *tx) (err error) {
		if err = tx.untaken(u); err != nil {
			return err
		}
		u.ID, err = tx.q.AddUser(tx.ctx, query.AddUserParams{
			Email: u.Email, FirstName: u.FirstName, LastName: u.LastName, Role: string(u.Role), Disabled: number(u.Disabled),
		})
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
	return userOf(row), nil
}

// UserByEmail implements [store.Accounts].
func (s *Store) UserByEmail(ctx context.Context, email string) (account.User, error) {
	row, err := s.read.GetUserByEmail(ctx, email)
	if err != nil {
		return account.User{}, fmt.Errorf("user by email: %w", readError(err))
	}
	return userOf(row), nil
}

// Users implements [store.Members].
func (s *Store) Users(ctx context.Context) ([]account.User, error) {
	rows, err := s.read.ListUsers(ctx)
	if err != nil {
		return nil, fmt.Errorf("list users: %w", err)
	}
	users := make([]account.User, len(rows))
	for i, row := range rows {
		users[i] = userOf(row)
	}
	return users, nil
}

// UpdateUser implements [store.Members].
func (s *Store) UpdateUser(ctx context.Context, id int64, change func(*account.User) error) (u account.User, err error) {
	err = s.write(ctx, func(tx *tx) error {
		row, err := tx.q.GetUser(tx.ctx, id)
		if err != nil {
			return readError(err)
		}
		u = userOf(row)
		if err := change(&u); err != nil {
			return err
		}
		if err := tx.untaken(u); err != nil {
			return err
		}
		n, err := tx.q.UpdateUser(tx.ctx, query.UpdateUserParams{
			ID: id, Email: u.Email, FirstName: u.FirstName, LastName: u.LastName, Role: string(u.Role), Disabled: number(u.Disabled),
		})
		if err = found(n, err); err != nil {
			return err
		}
		tx.wrote = true // so that an error undoes it
		owners, err := tx.q.CountOwners(tx.ctx)
		if err == nil && owners == 0 {
			err = store.ErrLastOwner
		}
		return err
	})
	if err != nil {
		return account.User{}, fmt.Errorf("update user %d: %w", id, err)
	}
	return u, nil
}

// untaken returns [store.ErrExists] where another user has the address.
func (tx *tx) untaken(u account.User) error {
	if u.Email == "" {
		return nil
	}
	other, err := tx.q.GetUserByEmail(tx.ctx, u.Email)
	switch {
	case errors.Is(err, sql.ErrNoRows), err == nil && other.ID == u.ID:
		return nil
	case err == nil:
		return store.ErrExists
	}
	return err
}

func userOf(row query.User) account.User {
	return account.User{
		ID: row.ID, Email: row.Email, FirstName: row.FirstName, LastName: row.LastName, Role: account.Role(row.Role), Disabled: row.Disabled != 0,
	}
}

// AddKey implements [store.Accounts]. The error wraps [store.ErrExists] for a
// key that is there already, and [store.ErrNotFound] for one of an unknown user.
func (s *Store) AddKey(ctx context.Context, k account.APIKey) (account.APIKey, error) {
	if k.CreatedAt.IsZero() {
		k.CreatedAt = time.Now()
	}
	if k.Kind == "" {
		k.Kind = account.Lasting
	}
	k.CreatedAt, k.ExpiresAt = stamp(k.CreatedAt.UnixNano()), stamp(nanos(k.ExpiresAt))
	err := s.write(ctx, func(tx *tx) (err error) {
		k.ID, err = tx.q.AddKey(tx.ctx, query.AddKeyParams{
			Kind: string(k.Kind), Name: k.Name, UserID: k.UserID, Hash: k.Hash[:], CreatedAt: nanos(k.CreatedAt), ExpiresAt: nanos(k.ExpiresAt),
		})
		if err = constraint(err); err != nil { // nothing was written
			return err
		}
		tx.wrote = true
		user, err := tx.q.GetUser(tx.ctx, k.UserID)
		k.Role, k.Disabled = account.Role(user.Role), user.Disabled != 0
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

// constraint turns the database's words for what it refuses into the store's.
func constraint(err error) error {
	if e, ok := errors.AsType[*driver.Error](err); ok {
		switch e.Code() {
		case sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY:
			return store.ErrExists
		case sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
			return fmt.Errorf("its user: %w", store.ErrNotFound)
		}
	}
	return err
}

// Key implements [store.Accounts].
func (s *Store) Key(ctx context.Context, hash [32]byte) (account.APIKey, error) {
	row, err := s.read.GetKey(ctx, hash[:])
	if err != nil {
		return account.APIKey{}, fmt.Errorf("key: %w", readError(err))
	}
	return keyOf(query.ListKeysRow(row)), nil
}

// Keys implements [store.Members].
func (s *Store) Keys(ctx context.Context, userID int64) ([]account.APIKey, error) {
	rows, err := s.read.ListKeys(ctx, userID)
	if err != nil {
		return nil, fmt.Errorf("list keys: %w", err)
	}
	var keys []account.APIKey
	for _, row := range rows {
		if k := keyOf(row); !k.Expired(time.Now()) {
			keys = append(keys, k)
		}
	}
	return keys, nil
}

// RemoveKey implements [store.Members].
func (s *Store) RemoveKey(ctx context.Context, userID, id int64) error {
	err := s.write(ctx, func(tx *tx) error {
		n, err := tx.q.DeleteKey(tx.ctx, query.DeleteKeyParams{UserID: userID, ID: id})
		tx.wrote = n > 0
		return found(n, err)
	})
	if err != nil {
		return fmt.Errorf("remove key %d: %w", id, err)
	}
	return nil
}

// RemoveKeys implements [store.Members].
func (s *Store) RemoveKeys(ctx context.Context, userID int64, kind account.Kind, but int64) error {
	err := s.write(ctx, func(tx *tx) error {
		tx.wrote = true
		return tx.q.DeleteKeysOfKind(tx.ctx, query.DeleteKeysOfKindParams{UserID: userID, Kind: string(kind), But: but})
	})
	if err != nil {
		return fmt.Errorf("remove keys: %w", err)
	}
	return nil
}

func keyOf(row query.ListKeysRow) account.APIKey {
	return account.APIKey{
		ID: row.ID, Kind: account.Kind(row.Kind), Name: row.Name, UserID: row.UserID, Role: account.Role(row.Role), Disabled: row.Disabled != 0,
		Hash: [32]byte(row.Hash), CreatedAt: stamp(row.CreatedAt), ExpiresAt: stamp(row.ExpiresAt),
	}
}

// CountKeys implements [store.Accounts].
func (s *Store) CountKeys(ctx context.Context) (int, error) {
	n, err := s.read.CountKeys(ctx)
	if err != nil {
		return 0, fmt.Errorf("count keys: %w", err)
	}
	return int(n), nil
}
