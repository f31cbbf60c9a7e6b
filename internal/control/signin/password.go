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

// Bounds of a password: characters, and bytes of what is hashed; and of an e-mail
// address, in bytes, by RFC 5321.
const (
	minPassword = 12
	maxPassword = 1024
	maxEmail    = 254
)

// The cost of a hash: the second of the choices that RFC 9106, section 4,
// recommends, 64 MiB and three passes.
const (
	hashTime    = 3
	hashMemory  = 64 << 10 // KiB
	hashThreads = 4
	saltSize    = 16
	hashSize    = 32
)

// hashing bounds how many passwords are hashed at once, each in 64 MiB.
var hashing = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))

// try returns a fault if one of the names has to wait, and otherwise waits for a
// turn to hash, which done ends. A failure is to be counted before that: whoever
// sends a thousand tries at once has no more of them than one after the other.
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
	if err := d.failures.wait(names...); err != nil { // those before it have failed meanwhile
		done()
		return nil, err
	}
	return done, nil
}

// hash returns what is kept of a password, in the form of PHC strings. It is the
// caller's turn.
func hash(password string) string {
	salt := make([]byte, saltSize)
	_, _ = rand.Read(salt) // never fails: crypto/rand ends the process instead
	key := argon2.IDKey([]byte(password), salt, hashTime, hashMemory, hashThreads, hashSize)
	enc := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, hashMemory, hashTime, hashThreads, enc(salt), enc(key))
}

// matches reports whether the password is that of the hash. It is the caller's
// turn.
func matches(password, hash string) (bool, error) {
	part := strings.Split(hash, "$")
	if len(part) != 6 || part[1] != "argon2id" || part[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return false, errors.New("the hash of a password has a form that is not known")
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

// nobodys is a hash that takes as long as another, and that no password has: so
// that an answer's time does not tell whether there is such a user.
var nobodys = "$argon2id$v=19$m=65536,t=3,p=4$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

// WithPassword signs in by password.
func (d *Desk) WithPassword(ctx context.Context, email, password, address, browser string) (Session, error) {
	if len(email) > maxEmail {
		email = "" // which is nobody's, and not worth remembering
	}
	name := "email " + email
	done, err := d.try(ctx, name, at(address))
	if err != nil {
		return Session{}, err
	}
	defer done()
	if len(password) > maxPassword {
		password = "" // which nobody's is
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
		d.failures.add(name, at(address))
		return Session{}, fault.Unauthenticated("the address or the password is wrong").Hint("an admin can make you a link that signs in once")
	}
	d.failures.forget(name)
	return d.open(ctx, u.ID, browser)
}

// SetPassword gives the user of the session another password; current is asked
// for where they have one. Their other sessions end.
func (d *Desk) SetPassword(ctx context.Context, who account.APIKey, current, password string) error {
	u, err := d.Store.User(ctx, who.UserID)
	if err != nil {
		return err
	}
	switch {
	case u.Email == "":
		return fault.Invalid("you need an e-mail address to sign in with a password").Hint("set it first")
	case utf8.RuneCountInString(password) < minPassword:
		return fault.Invalid("needs %d characters or more", minPassword).At("password").Hint("some words in a row are easy to remember")
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
			return fault.Denied("it is not your current password").At("current")
		}
		d.failures.forget(name)
	}
	if err := d.Store.SetPassword(ctx, u.ID, hash(password)); err != nil {
		return err
	}
	return d.Store.RemoveKeys(ctx, u.ID, account.Session, who.ID)
}
