// Package account is who may use a server: users and their API keys.
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
	Disabled  bool // neither they nor their keys are let in
}

// Name is what to call them.
func (u User) Name() string {
	if name := strings.TrimSpace(u.FirstName + " " + u.LastName); name != "" {
		return name
	}
	return u.Email
}

// APIKey is how a program, or a browser that has signed in, speaks for a user.
// The key itself is kept nowhere: only its hash is.
type APIKey struct {
	ID        int64
	Kind      Kind
	Name      string
	UserID    int64
	Role      Role // of the user, as it is now
	Disabled  bool // the user is
	Hash      [sha256.Size]byte
	CreatedAt time.Time
	ExpiresAt time.Time // zero for never
}

// Kind is what a key is for.
type Kind string

// The kinds of keys.
const (
	Lasting  Kind = "key"       // a program's, until it is deleted
	SubToken Kind = "sub-token" // a program's that acts for another user, for a while
	Session  Kind = "session"   // a browser's, until it signs out
)

// MaySee reports whether what the user of that number has may be read with the
// key. What may be done to it is the route's to say.
func (k APIKey) MaySee(userID int64) bool {
	return k.UserID == userID || k.Role == Viewer || k.Role.Covers(Admin)
}

// Expired reports whether the key is good no longer.
func (k APIKey) Expired(now time.Time) bool { return !k.ExpiresAt.IsZero() && !now.Before(k.ExpiresAt) }

// keyPrefix lets people and scanners know a key when they see one.
const keyPrefix = "aloft_"

// NewKey returns a key of 160 random bits.
func NewKey() string {
	b := make([]byte, 20)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the process instead
	return keyPrefix + strings.ToLower(base32.StdEncoding.EncodeToString(b))
}

// HashKey returns what is stored of a key. The key has the entropy of a random
// one, so a plain hash is as good as a slow one.
func HashKey(key string) [sha256.Size]byte { return sha256.Sum256([]byte(key)) }
