package safe

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"

	"aloft/internal/fault"
	"aloft/internal/secret"
)

// keySize is the size of a data key in bytes: AES-256.
const keySize = 32

// seal encrypts the value with a new data key, which the keeper wraps. The
// secret's identity and owner are authenticated data, so a value that was moved
// to another row cannot be decrypted.
func (s *Safe) seal(ctx context.Context, of secret.Secret, value string) (secret.Sealed, error) {
	key := make([]byte, keySize)
	_, _ = rand.Read(key) // never fails: crypto/rand crashes the process instead
	defer clear(key)
	wrapped, name, err := s.Keepers[0].Wrap(ctx, key)
	if err != nil {
		return secret.Sealed{}, fmt.Errorf("seal secret %s: %w", of.Name, err)
	}
	aead, err := newAEAD(key)
	if err != nil {
		return secret.Sealed{}, err
	}
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(value)+aead.Overhead())
	_, _ = rand.Read(nonce)
	box := aead.Seal(nonce, nonce, []byte(value), bound(of))
	return secret.Sealed{Secret: of, Keeper: name, Key: wrapped, Box: box}, nil
}

// open decrypts the value. Its error never contains the value.
func (s *Safe) open(ctx context.Context, sealed secret.Sealed) (string, error) {
	key, err := s.unwrap(ctx, sealed)
	if err != nil {
		if fault.Is(err, fault.KindUnavailable) {
			return "", err
		}
		return "", fault.Unavailable("the secret %s cannot be opened", sealed.Name).Named("secret_sealed").
			Hint("give the server the keeper that sealed it (%s), or set the secret again", sealed.Keeper).Because(err)
	}
	defer clear(key)
	aead, err := newAEAD(key)
	if err != nil {
		return "", err
	}
	if len(sealed.Box) < aead.NonceSize() {
		return "", fmt.Errorf("secret %s: its encrypted value is truncated", sealed.ID)
	}
	nonce, box := sealed.Box[:aead.NonceSize()], sealed.Box[aead.NonceSize():]
	value, err := aead.Open(nil, nonce, box, bound(sealed.Secret))
	if err != nil {
		return "", fmt.Errorf("secret %s: its row in the store was modified", sealed.ID)
	}
	return string(value), nil
}

func (s *Safe) unwrap(ctx context.Context, sealed secret.Sealed) ([]byte, error) {
	for _, k := range s.Keepers {
		key, err := k.Unwrap(ctx, sealed.Keeper, sealed.Key)
		if errors.Is(err, errNotMine) {
			continue
		}
		if err == nil && len(key) != keySize {
			err = fmt.Errorf("its key has %d bytes", len(key))
		}
		return key, err
	}
	return nil, errors.New("no keeper knows its key")
}

func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// bound returns the authenticated data of a secret: everything except the
// creation time.
func bound(of secret.Secret) []byte {
	parts := append([]string{of.ID, of.Name, string(of.Type), string(of.Owner.Kind), of.Owner.ID}, of.Repos...)
	data, _ := json.Marshal(parts) // strings always encode
	return data
}
