package store

import (
	"context"
	"time"

	"aloft/internal/account"
)

// Accounts keeps users and API keys. Its methods are safe for concurrent use.
type Accounts interface {
	// AddUser gives the user its ID, and the role of a member where it has none.
	// An address that another user has is [ErrExists].
	AddUser(ctx context.Context, u account.User) (account.User, error)
	User(ctx context.Context, id int64) (account.User, error)
	// UserByEmail takes capitals and small letters for the same.
	UserByEmail(ctx context.Context, email string) (account.User, error)
	// AddKey gives the key its ID, and the kind of a lasting one where it has none.
	AddKey(ctx context.Context, k account.APIKey) (account.APIKey, error)
	// Key returns the key of that hash, with what its user may do now, or
	// [ErrNotFound]. One that has expired may be either.
	Key(ctx context.Context, hash [32]byte) (account.APIKey, error)
	CountKeys(ctx context.Context) (int, error)
}

// Members is the care of users and their keys. Its methods are safe for
// concurrent use.
type Members interface {
	// Users returns all, the oldest first.
	Users(ctx context.Context) ([]account.User, error)
	// UpdateUser changes a user, whom nobody else changes meanwhile, and returns
	// them as they are then. change must be quick and use no store; its error, which
	// undoes all, is returned. The error wraps [ErrExists] where another has the
	// address, and [ErrLastOwner] where nobody would be left to own the server.
	UpdateUser(ctx context.Context, id int64, change func(*account.User) error) (account.User, error)
	// Keys returns those of a user that have not expired, the newest first,
	// sessions too.
	Keys(ctx context.Context, userID int64) ([]account.APIKey, error)
	// RemoveKey removes one, or returns [ErrNotFound].
	RemoveKey(ctx context.Context, userID, id int64) error
	// RemoveKeys removes a user's of one kind, all but the one of that ID.
	RemoveKeys(ctx context.Context, userID int64, kind account.Kind, but int64) error
}

// SignIns keeps what people sign in with. Its methods are safe for concurrent
// use.
type SignIns interface {
	// Password returns the hash of a user's password, "" if there is none.
	Password(ctx context.Context, userID int64) (string, error)
	// SetPassword keeps it; "" removes it.
	SetPassword(ctx context.Context, userID int64, hash string) error
	Passkeys
	Identities
	Links
}

// Passkeys are keys in people's devices. Its methods are safe for concurrent use.
type Passkeys interface {
	// Passkeys returns a user's, the oldest first.
	Passkeys(ctx context.Context, userID int64) ([]account.Passkey, error)
	// PutPasskey adds one, or writes what has changed of it. One that is another
	// user's is [ErrExists].
	PutPasskey(ctx context.Context, p account.Passkey) error
	// RemovePasskey removes one, or returns [ErrNotFound].
	RemovePasskey(ctx context.Context, userID int64, id []byte) error
}

// Identities say who a user is elsewhere. Its methods are safe for concurrent use.
type Identities interface {
	// Identity returns the user whom the issuer calls subject, or [ErrNotFound].
	Identity(ctx context.Context, issuer, subject string) (userID int64, err error)
	// AddIdentity keeps it; one that there is already is [ErrExists].
	AddIdentity(ctx context.Context, issuer, subject string, userID int64) error
}

// Links sign a user in, once each. Its methods are safe for concurrent use.
type Links interface {
	// AddLink keeps the hash of a link. Earlier ones of the user are good no more.
	AddLink(ctx context.Context, hash [32]byte, userID int64, expires time.Time) error
	// TakeLink returns whose link it is, once; otherwise [ErrNotFound].
	TakeLink(ctx context.Context, hash [32]byte, now time.Time) (userID int64, err error)
	// CanSignIn reports whether anybody has something to sign in with.
	CanSignIn(ctx context.Context) (bool, error)
}

// AuditLog remembers who has settled what. Its methods are safe for concurrent
// use.
type AuditLog interface {
	AddAudit(ctx context.Context, a account.Audit) error
	// Audit returns at most limit entries from before the numbered one, the newest
	// first; 0 is from the end.
	Audit(ctx context.Context, before int64, limit int) ([]account.Audit, error)
}
