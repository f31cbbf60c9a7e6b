package signin

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"

	"aloft/internal/account"
	"aloft/internal/control/store"
	"aloft/internal/fault"
)

// Limits of passwords and email addresses. minPassword is in characters,
// maxPassword in bytes, and maxEmail in bytes, as in RFC 5321.
const (
	minPassword = 12
	maxPassword = 1024
	maxEmail    = 254
)

// The cost of a hash: the second recommended option of RFC 9106, section 4,
// with 64 MiB and three passes.
const (
	hashTime    = 3
	hashMemory  = 64 << 10 // KiB
	hashThreads = 4
	saltSize    = 16
	hashSize    = 32
)

// hashing limits how many passwords are hashed at once, because each hash takes
// 64 MiB.
var hashing = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))

// try returns a fault if one of the names has to wait; otherwise it waits for a
// hashing slot, which done releases. The caller must count a failure before it
// calls done, so that parallel tries have no advantage over sequential ones.
func (d *Desk) try(ctx context.Context, names ...string) (done func(), err error) {
	if err := d.failures.wait(names...); err != nil {
		return nil, err
	}
	select {
	case hashing <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	done = func() { <-hashing }
	if err := d.failures.wait(names...); err != nil { // earlier tries may have failed meanwhile
		done()
		return nil, err
	}
	return done, nil
}

// hash returns the stored form of a password, a PHC string. The caller holds a
// hashing slot.
func hash(password string) string {
	salt := make([]byte, saltSize)
	_, _ = rand.Read(salt) // never fails: crypto/rand ends the process instead
	key := argon2.IDKey([]byte(password), salt, hashTime, hashMemory, hashThreads, hashSize)
	enc := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, hashMemory, hashTime, hashThreads, enc(salt), enc(key))
}

// matches reports whether the hash belongs to the password. The caller holds a
// hashing slot.
func matches(password, hash string) (bool, error) {
	part := strings.Split(hash, "$")
	if len(part) != 6 || part[1] != "argon2id" || part[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return false, errors.New("unknown format of a password hash")
	}
	var memory, time uint32
	var threads uint8
	if _, err := fmt.Sscanf(part[3], "m=%d,t=%d,p=%d", &memory, &time, &threads); err != nil {
		return false, fmt.Errorf("the hash of a password: %w", err)
	}
	salt, err := base64.RawStdEncoding.DecodeString(part[4])
	if err != nil {
		return false, fmt.Errorf("the hash of a password: %w", err)
	}
	want, err := base64.RawStdEncoding.DecodeString(part[5])
	if err != nil {
		return false, fmt.Errorf("the hash of a password: %w", err)
	}
	got := argon2.IDKey([]byte(password), salt, time, memory, threads, uint32(len(want)))
	return subtle.ConstantTimeCompare(got, want) == 1, nil
}

// nobodys is a hash that no password has. It is checked for unknown users, so
// that the response time does not reveal whether a user exists.
var nobodys = "$argon2id$v=19$m=65536,t=3,p=4$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

// WithPassword signs in with a password.
func (d *Desk) WithPassword(ctx context.Context, email, password, address, browser string) (Session, error) {
	if len(email) > maxEmail {
		email = "" // too long to be a user's address; do not store it
	}
	name := "email " + email
	done, err := d.try(ctx, name, addressName(address))
	if err != nil {
		return Session{}, err
	}
	defer done()
	if len(password) > maxPassword {
		password = "" // too long to be a password
	}
	u, err := d.Store.UserByEmail(ctx, email)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return Session{}, err
	}
	have := ""
	if err == nil && email != "" {
		if have, err = d.Store.Password(ctx, u.ID); err != nil {
			return Session{}, err
		}
	}
	known := have != ""
	if !known {
		have = nobodys
	}
	ok, err := matches(password, have)
	if err != nil {
		return Session{}, err
	}
	if !ok || !known {
		d.failures.add(name, addressName(address))
		return Session{}, fault.Unauthenticated("the address or the password is wrong").Hint("ask an admin for a sign-in link")
	}
	d.failures.forget(name)
	return d.open(ctx, u.ID, browser)
}

// SetPassword changes the password of the session's user. current is required
// if the user has a password. The user's other sessions end.
func (d *Desk) SetPassword(ctx context.Context, who account.APIKey, current, password string) error {
	u, err := d.Store.User(ctx, who.UserID)
	if err != nil {
		return err
	}
	switch {
	case u.Email == "":
		return fault.Invalid("you need an e-mail address to sign in with a password").Hint("set it first")
	case utf8.RuneCountInString(password) < minPassword:
		return fault.Invalid("needs %d characters or more", minPassword).At("password").Hint("a few words in a row are easy to remember")
	case len(password) > maxPassword:
		return fault.Invalid("has more than %d bytes", maxPassword).At("password")
	case strings.EqualFold(password, u.Email):
		return fault.Invalid("is your address").At("password")
	}
	name := fmt.Sprintf("user %d", u.ID)
	done, err := d.try(ctx, name)
	if err != nil {
		return err
	}
	defer done()
	have, err := d.Store.Password(ctx, u.ID)
	if err != nil {
		return err
	}
	if have != "" {
		ok, err := matches(current, have)
		if err != nil {
			return err
		}
		if !ok {
			d.failures.add(name)
			return fault.Denied("the current password is wrong").At("current")
		}
		d.failures.forget(name)
	}
	if err := d.Store.SetPassword(ctx, u.ID, hash(password)); err != nil {
		return err
	}
	return d.Store.RemoveKeys(ctx, u.ID, account.Session, who.ID)
}
