// Package account is who may use a server: users and their API keys.
package account

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"strings"
	"time"
)

// AdminID is the user whom a server makes with its first key.
const AdminID = 1

// User is a person.
type User struct {
	ID        int64
	Email     string
	FirstName string
	LastName  string
}

// APIKey is how a program speaks for a user. The key itself is kept nowhere:
// only its hash is.
type APIKey struct {
	ID        int64
	Name      string
	UserID    int64
	Hash      [sha256.Size]byte
	CreatedAt time.Time
	ExpiresAt time.Time // zero for never; otherwise it is a sub-token
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
