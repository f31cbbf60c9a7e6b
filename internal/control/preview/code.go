package preview

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"sync"
	"time"
)

// Limits of the codes that open previews.
const (
	codeTTL = time.Minute
	maxCode = 1 << 10 // bytes
	maxUsed = 100_000 // codes that are remembered as used
)

// codes makes the codes that open a preview once, within [codeTTL]. A code contains
// its session, encrypted with a key of this process. Opening a preview therefore
// takes no memory, and nobody can use up the codes of others. It is safe for
// concurrent use.
type codes struct {
	seal cipher.AEAD

	mu   sync.Mutex
	used map[string]time.Time // by the sealed bytes: when each of them expires
}

func newCodes() (*codes, error) {
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails: crypto/rand ends the process instead
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, err
	}
	seal, err := cipher.NewGCMWithRandomNonce(block)
	return &codes{seal: seal, used: map[string]time.Time{}}, err
}

// issue returns a code for the session, which expires when the session does.
func (c *codes) issue(s session) (string, error) {
	data, err := json.Marshal(s)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(c.seal.Seal(nil, nil, data, nil)), nil
}

// redeem returns the session of a code, once.
func (c *codes) redeem(code string) (s session, ok bool) {
	if len(code) > maxCode {
		return s, false
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(code)
	if err != nil {
		return s, false
	}
	data, err := c.seal.Open(nil, nil, sealed, nil)
	now := time.Now()
	if err != nil || json.Unmarshal(data, &s) != nil || !now.Before(s.Expires) {
		return session{}, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	once := string(sealed) // the decoder skips line breaks, so that several codes have these bytes
	if _, again := c.used[once]; again {
		return session{}, false
	}
	c.forget(now)
	c.used[once] = s.Expires
	return s, true
}

// forget makes room for one more used code: expired ones are removed first. The
// caller holds c.mu.
func (c *codes) forget(now time.Time) {
	if len(c.used) < maxUsed {
		return
	}
	for once, expires := range c.used {
		if !now.Before(expires) {
			delete(c.used, once)
		}
	}
	for once := range c.used { // a code that is used again opens only what its key may access
		if len(c.used) < maxUsed {
			return
		}
		delete(c.used, once)
	}
}
