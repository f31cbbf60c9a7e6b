package signin

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"sync"
	"time"
)

// maxTaken is how many used names of sign-ins are remembered, each until the sign-in
// would have expired.
const maxTaken = 100_000

// maxSealed is the maximum length of a name from a client, in bytes.
const maxSealed = 4 << 10

// pending encrypts the state of an unfinished sign-in into a name that the
// browser keeps. So requests that only begin a sign-in cost the server no
// memory. Each name can be used once. It is safe for concurrent use.
type pending[T any] struct {
	seal cipher.AEAD

	mu    sync.Mutex
	taken map[string]time.Time // expiry time of used names, by their sealed bytes
}

// begun is the value that is encrypted in a name.
type begun[T any] struct {
	What T         `json:"what"`
	Ends time.Time `json:"ends"`
}

// newPending returns a pending with a new random key.
func newPending[T any]() *pending[T] {
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails: crypto/rand ends the process instead
	block, err := aes.NewCipher(key[:])
	if err == nil {
		var seal cipher.AEAD
		if seal, err = cipher.NewGCMWithRandomNonce(block); err == nil {
			return &pending[T]{seal: seal, taken: map[string]time.Time{}}
		}
	}
	panic(err) // the key has a valid length
}

// put returns a name that contains the given value and expires after life.
// Nobody can guess the name, or read or change its content.
func (p *pending[T]) put(what T, life time.Duration) (string, error) {
	text, err := json.Marshal(begun[T]{what, time.Now().Add(life)})
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(p.seal.Seal(nil, nil, text, nil)), nil
}

// take returns the value in a name. It succeeds once for each name.
func (p *pending[T]) take(name string) (what T, ok bool) {
	if len(name) > maxSealed {
		return what, false
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(name)
	if err != nil {
		return what, false
	}
	text, err := p.seal.Open(nil, nil, sealed, nil)
	if err != nil {
		return what, false
	}
	var b begun[T]
	now := time.Now()
	if err := json.Unmarshal(text, &b); err != nil || !now.Before(b.Ends) {
		return what, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	// The encoding of a name is not unique: the decoder skips line breaks.
	once := string(sealed)
	if _, again := p.taken[once]; again {
		return what, false
	}
	p.forget(now)
	p.taken[once] = b.Ends
	return b.What, true
}

// forget makes room for one more name. The caller holds p.mu.
func (p *pending[T]) forget(now time.Time) {
	if len(p.taken) < maxTaken {
		return
	}
	for once, ends := range p.taken {
		if !now.Before(ends) {
			delete(p.taken, once)
		}
	}
	for once := range p.taken { // this is safe, because a name alone signs nobody in
		if len(p.taken) < maxTaken {
			return
		}
		delete(p.taken, once)
	}
}
