// Package account defines who may use a server: users and their API keys.
package account

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"strings"
	"time"
)

// User is a person.
type User struct {
	ID        int64
	Email     string
	FirstName string
	LastName  string
	Role      Role
	Disabled  bool // the user and their keys are rejected
}

// Name returns the user's name, or the email address if there is none.
func (u User) Name() string {
	if name := strings.TrimSpace(u.FirstName + " " + u.LastName); name != "" {
		return name
	}
	return u.Email
}

// APIKey authenticates a program, or a browser that has signed in, as a user.
// Only the hash of the key is stored.
type APIKey struct {
	ID        int64
	Kind      Kind
	Name      string
	UserID    int64
	Role      Role // the user's current role
	Disabled  bool // the user is disabled
	Hash      [sha256.Size]byte
	CreatedAt time.Time
	ExpiresAt time.Time // zero means never
}

// Kind is the kind of a key.
type Kind string

// The kinds of keys.
const (
	Lasting  Kind = "key"       // for a program, until it is deleted
	SubToken Kind = "sub-token" // for a program that acts as another user for a limited time
	Session  Kind = "session"   // for a browser, until it signs out
)

// MaySee reports whether the key allows reading the user's data. Whether the data may be
// changed depends on the route.
func (k APIKey) MaySee(userID int64) bool {
	return k.UserID == userID || k.Role == Viewer || k.Role.Covers(Admin)
}

// Expired reports whether the key has expired.
func (k APIKey) Expired(now time.Time) bool { return !k.ExpiresAt.IsZero() && !now.Before(k.ExpiresAt) }

// keyPrefix lets people and secret scanners recognize a key.
const keyPrefix = "aloft_"

// NewKey returns a key with 160 random bits.
func NewKey() string {
	b := make([]byte, 20)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the process instead
	return keyPrefix + strings.ToLower(base32.StdEncoding.EncodeToString(b))
}

// HashKey returns the stored hash of a key. Since keys are random, a fast hash
// is as secure as a slow one.
func HashKey(key string) [sha256.Size]byte { return sha256.Sum256([]byte(key)) }
