package table

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"

	"aloft/internal/account"
	"aloft/internal/control/store"
	"aloft/internal/control/store/table/query"
)

// Password implements [store.SignIns].
func (s *Store) Password(ctx context.Context, userID int64) (string, error) {
	hash, err := s.read.GetPassword(ctx, userID)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("password: %w", err)
	}
	return hash, nil
}

// SetPassword implements [store.SignIns].
func (s *Store) SetPassword(ctx context.Context, userID int64, hash string) error {
	err := s.db.Write(ctx, accounts, func(tx *Tx) error {
		tx.Wrote = true
		if hash == "" {
			return tx.Q.DeletePassword(tx.Ctx, userID)
		}
		return tx.Refused(tx.Q.PutPassword(tx.Ctx, query.PutPasswordParams{UserID: userID, Hash: hash, ChangedAt: time.Now().UnixNano()}))
	})
	if err != nil {
		return fmt.Errorf("set password: %w", err)
	}
	return nil
}

// Passkeys implements [store.Passkeys].
func (s *Store) Passkeys(ctx context.Context, userID int64) ([]account.Passkey, error) {
	rows, err := s.read.ListPasskeys(ctx, userID)
	if err != nil {
		return nil, fmt.Errorf("list passkeys: %w", err)
	}
	keys := make([]account.Passkey, len(rows))
	for i, row := range rows {
		keys[i] = account.Passkey{
			ID: row.ID, UserID: row.UserID, Name: row.Name, Credential: []byte(row.Credential), CreatedAt: stamp(row.CreatedAt), UsedAt: stamp(row.UsedAt),
		}
	}
	return keys, nil
}

// PutPasskey implements [store.Passkeys].
func (s *Store) PutPasskey(ctx context.Context, p account.Passkey) error {
	err := s.db.Write(ctx, accounts, func(tx *Tx) error {
		n, err := tx.Q.PutPasskey(tx.Ctx, query.PutPasskeyParams{
			ID: p.ID, UserID: p.UserID, Name: p.Name, Credential: string(p.Credential), CreatedAt: nanos(p.CreatedAt), UsedAt: nanos(p.UsedAt),
		})
		tx.Wrote = n > 0
		if err == nil && n == 0 {
			return store.ErrExists // the passkey belongs to another user, and was not changed
		}
		return tx.Refused(err)
	})
	if err != nil {
		return fmt.Errorf("put passkey: %w", err)
	}
	return nil
}

// RemovePasskey implements [store.Passkeys].
func (s *Store) RemovePasskey(ctx context.Context, userID int64, id []byte) error {
	err := s.db.Write(ctx, accounts, func(tx *Tx) error {
		n, err := tx.Q.DeletePasskey(tx.Ctx, query.DeletePasskeyParams{UserID: userID, ID: id})
		tx.Wrote = n > 0
		return requireRow(n, err)
	})
	if err != nil {
		return fmt.Errorf("remove passkey: %w", err)
	}
	return nil
}

// Identity implements [store.Identities].
func (s *Store) Identity(ctx context.Context, issuer, subject string) (int64, error) {
	id, err := s.read.GetIdentity(ctx, query.GetIdentityParams{Issuer: issuer, Subject: subject})
	if err != nil {
		return 0, fmt.Errorf("identity: %w", readError(err))
	}
	return id, nil
}

// AddIdentity implements [store.Identities].
func (s *Store) AddIdentity(ctx context.Context, issuer, subject string, userID int64) error {
	err := s.db.Write(ctx, accounts, func(tx *Tx) error {
		err := tx.Refused(tx.Q.AddIdentity(tx.Ctx, query.AddIdentityParams{Issuer: issuer, Subject: subject, UserID: userID}))
		tx.Wrote = err == nil
		return err
	})
	if err != nil {
		return fmt.Errorf("add identity: %w", err)
	}
	return nil
}

// AddLink implements [store.Links].
func (s *Store) AddLink(ctx context.Context, hash [32]byte, userID int64, expires time.Time) error {
	err := s.db.Write(ctx, accounts, func(tx *Tx) error {
		tx.Wrote = true
		if err := tx.Q.ForgetLinks(tx.Ctx, query.ForgetLinksParams{Now: time.Now().UnixNano(), UserID: userID}); err != nil {
			return err
		}
		return tx.Refused(tx.Q.AddLink(tx.Ctx, query.AddLinkParams{Hash: hash[:], UserID: userID, ExpiresAt: nanos(expires)}))
	})
	if err != nil {
		return fmt.Errorf("add link: %w", err)
	}
	return nil
}

// TakeLink implements [store.Links].
func (s *Store) TakeLink(ctx context.Context, hash [32]byte, now time.Time) (userID int64, err error) {
	err = s.db.Write(ctx, accounts, func(tx *Tx) error {
		row, err := tx.Q.TakeLink(tx.Ctx, hash[:])
		if err != nil {
			return readError(err)
		}
		tx.Wrote = true // the link is deleted even if it has expired
		if userID = row.UserID; row.ExpiresAt <= nanos(now) {
			userID = 0
		}
		return nil
	})
	if err == nil && userID == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		return 0, fmt.Errorf("take link: %w", err)
	}
	return userID, nil
}

// CanSignIn implements [store.Links].
func (s *Store) CanSignIn(ctx context.Context) (bool, error) {
	n, err := s.read.CountSignIns(ctx)
	if err != nil {
		return false, fmt.Errorf("count what people sign in with: %w", err)
	}
	return n > 0, nil
}

// AddAudit implements [store.AuditLog].
func (s *Store) AddAudit(ctx context.Context, a account.Audit) error {
	err := s.db.Write(ctx, alone, func(tx *Tx) error {
		tx.Wrote = true
		return tx.Q.AddAudit(tx.Ctx, query.AddAuditParams{
			Time: nanos(a.Time), UserID: a.UserID, Address: a.Address, Action: a.Action, Target: a.Target, Outcome: a.Outcome,
		})
	})
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return nil
}

// Audit implements [store.AuditLog].
func (s *Store) Audit(ctx context.Context, before int64, limit int) ([]account.Audit, error) {
	if before <= 0 {
		before = math.MaxInt64
	}
	rows, err := s.read.ListAudit(ctx, query.ListAuditParams{Before: before, Most: int64(max(limit, 0))})
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	all := make([]account.Audit, len(rows))
	for i, row := range rows {
		all[i] = account.Audit{
			ID: row.ID, Time: stamp(row.Time), UserID: row.UserID, Address: row.Address, Action: row.Action, Target: row.Target, Outcome: row.Outcome,
		}
	}
	return all, nil
}
