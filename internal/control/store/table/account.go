package table

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"aloft/internal/account"
	"aloft/internal/control/store"
	"aloft/internal/control/store/table/query"
)

// AddUser implements [store.Accounts].
func (s *Store) AddUser(ctx context.Context, u account.User) (account.User, error) {
	if u.Role == "" {
		u.Role = account.Member
	}
	err := s.db.Write(ctx, accounts, func(tx *Tx) (err error) {
		if err = tx.untaken(u); err != nil {
			return err
		}
		u.ID, err = tx.Q.AddUser(tx.Ctx, query.AddUserParams{
			Email: u.Email, FirstName: u.FirstName, LastName: u.LastName, Role: string(u.Role), Disabled: number(u.Disabled),
		})
		tx.Wrote = true
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
	err = s.db.Write(ctx, accounts, func(tx *Tx) error {
		row, err := tx.Q.GetUser(tx.Ctx, id)
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
		n, err := tx.Q.UpdateUser(tx.Ctx, query.UpdateUserParams{
			ID: id, Email: u.Email, FirstName: u.FirstName, LastName: u.LastName, Role: string(u.Role), Disabled: number(u.Disabled),
		})
		if err = requireRow(n, err); err != nil {
			return err
		}
		tx.Wrote = true // makes an error roll back the change
		owners, err := tx.Q.CountOwners(tx.Ctx)
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

// untaken returns [store.ErrExists] if another user has the email address.
func (tx *Tx) untaken(u account.User) error {
	if u.Email == "" {
		return nil
	}
	other, err := tx.Q.GetUserByEmail(tx.Ctx, u.Email)
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

// AddKey implements [store.Accounts]. The error wraps [store.ErrExists] if the
// key exists already, and [store.ErrNotFound] if the user does not.
func (s *Store) AddKey(ctx context.Context, k account.APIKey) (account.APIKey, error) {
	if k.CreatedAt.IsZero() {
		k.CreatedAt = time.Now()
	}
	if k.Kind == "" {
		k.Kind = account.Lasting
	}
	k.CreatedAt, k.ExpiresAt = stamp(k.CreatedAt.UnixNano()), stamp(nanos(k.ExpiresAt))
	err := s.db.Write(ctx, accounts, func(tx *Tx) (err error) {
		k.ID, err = tx.Q.AddKey(tx.Ctx, query.AddKeyParams{
			Kind: string(k.Kind), Name: k.Name, UserID: k.UserID, Hash: k.Hash[:], CreatedAt: nanos(k.CreatedAt), ExpiresAt: nanos(k.ExpiresAt),
		})
		if err = tx.Refused(err); err != nil { // nothing was written
			return err
		}
		tx.Wrote = true
		user, err := tx.Q.GetUser(tx.Ctx, k.UserID)
		k.Role, k.Disabled = account.Role(user.Role), user.Disabled != 0
		if err == nil && !k.ExpiresAt.IsZero() { // sessions are frequent, so delete expired ones here
			err = tx.Q.ForgetKeys(tx.Ctx, time.Now().UnixNano())
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
	err := s.db.Write(ctx, accounts, func(tx *Tx) error {
		n, err := tx.Q.DeleteKey(tx.Ctx, query.DeleteKeyParams{UserID: userID, ID: id})
		tx.Wrote = n > 0
		return requireRow(n, err)
	})
	if err != nil {
		return fmt.Errorf("remove key %d: %w", id, err)
	}
	return nil
}

// RemoveKeys implements [store.Members].
func (s *Store) RemoveKeys(ctx context.Context, userID int64, kind account.Kind, but int64) error {
	err := s.db.Write(ctx, accounts, func(tx *Tx) error {
		tx.Wrote = true
		return tx.Q.DeleteKeysOfKind(tx.Ctx, query.DeleteKeysOfKindParams{UserID: userID, Kind: string(kind), But: but})
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
