package store

import (
	"context"
	"time"

	"aloft/internal/account"
)

// Accounts stores users and API keys. Its methods are safe for concurrent use.
type Accounts interface {
	// AddUser assigns the user an ID, and the role of a member if they have
	// none. It returns [ErrExists] if another user has the email address.
	AddUser(ctx context.Context, u account.User) (account.User, error)
	User(ctx context.Context, id int64) (account.User, error)
	// UserByEmail ignores case.
	UserByEmail(ctx context.Context, email string) (account.User, error)
	// AddKey assigns the key an ID, and the kind Lasting if it has none.
	AddKey(ctx context.Context, k account.APIKey) (account.APIKey, error)
	// Key returns the key with the given hash, with its user's current role, or
	// [ErrNotFound]. An expired key may be returned or not found.
	Key(ctx context.Context, hash [32]byte) (account.APIKey, error)
	CountKeys(ctx context.Context) (int, error)
}

// Members manages users and their keys. Its methods are safe for concurrent
// use.
type Members interface {
	// Users returns all users, oldest first.
	Users(ctx context.Context) ([]account.User, error)
	// UpdateUser applies change to a user in a transaction and returns the
	// result. change must be quick and must not use the store; if change
	// returns an error, UpdateUser changes nothing and returns that error. The
	// error wraps [ErrExists] if another user has the email address, and
	// [ErrLastOwner] if the server would be left without an owner.
	UpdateUser(ctx context.Context, id int64, change func(*account.User) error) (account.User, error)
	// Keys returns a user's keys that have not expired, including sessions,
	// newest first.
	Keys(ctx context.Context, userID int64) ([]account.APIKey, error)
	// RemoveKey removes a key, or returns [ErrNotFound].
	RemoveKey(ctx context.Context, userID, id int64) error
	// RemoveKeys removes a user's keys of one kind, except the key with the ID
	// except.
	RemoveKeys(ctx context.Context, userID int64, kind account.Kind, except int64) error
}

// SignIns stores the credentials with which people sign in. Its methods are
// safe for concurrent use.
type SignIns interface {
	// Password returns the hash of a user's password, or "" if there is none.
	Password(ctx context.Context, userID int64) (string, error)
	// SetPassword stores the hash; "" removes it.
	SetPassword(ctx context.Context, userID int64, hash string) error
	Passkeys
	Identities
	Links
}

// Passkeys stores the passkeys of users' devices. Its methods are safe for
// concurrent use.
type Passkeys interface {
	// Passkeys returns a user's passkeys, oldest first.
	Passkeys(ctx context.Context, userID int64) ([]account.Passkey, error)
	// PutPasskey adds or updates a passkey. It returns [ErrExists] if the
	// passkey belongs to another user.
	PutPasskey(ctx context.Context, p account.Passkey) error
	// RemovePasskey removes a passkey, or returns [ErrNotFound].
	RemovePasskey(ctx context.Context, userID int64, id []byte) error
}

// Identities maps accounts at identity providers to users. Its methods are safe
// for concurrent use.
type Identities interface {
	// Identity returns the user who is subject at the issuer, or [ErrNotFound].
	Identity(ctx context.Context, issuer, subject string) (userID int64, err error)
	// AddIdentity stores an identity. It returns [ErrExists] if the identity
	// exists.
	AddIdentity(ctx context.Context, issuer, subject string, userID int64) error
}

// Links stores sign-in links, which work once. Its methods are safe for
// concurrent use.
type Links interface {
	// AddLink stores the hash of a link, and invalidates the user's earlier
	// links.
	AddLink(ctx context.Context, hash [32]byte, userID int64, expires time.Time) error
	// TakeLink returns the user of a link and deletes it, or returns
	// [ErrNotFound].
	TakeLink(ctx context.Context, hash [32]byte, now time.Time) (userID int64, err error)
	// CanSignIn reports whether any user has credentials to sign in with.
	CanSignIn(ctx context.Context) (bool, error)
}

// AuditLog stores who changed what. Its methods are safe for concurrent use.
type AuditLog interface {
	AddAudit(ctx context.Context, a account.Audit) error
	// Audit returns at most limit entries with IDs less than before, newest
	// first. If before is 0, it returns the newest entries.
	Audit(ctx context.Context, before int64, limit int) ([]account.Audit, error)
}
