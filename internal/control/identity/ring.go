package identity

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"aloft/internal/atomicfile"
	"aloft/internal/lockfile"
)

const (
	bits = 2048 // bits of a key; every verifier accepts this size
	// rotateAfter is how long a key is used for signing.
	rotateAfter = 90 * 24 * time.Hour
	// keepRetired is how long a retired key is still published: longer than any
	// token is valid.
	keepRetired = time.Hour
)

// blockType is the PEM type of PKCS #8.
const blockType = "PRIVATE KEY"

// Headers of a key's PEM block.
const (
	headerSigning = "Signing-Since" // time of the first signature
	headerRetired = "Retired"       // time when the key was retired
)

// key is one key of a ring.
type key struct {
	id      string // thumbprint of RFC 7638, so that every server computes the same id
	private *rsa.PrivateKey
	signing time.Time // when it became the signing key; zero before
	retired time.Time // when it was retired; zero before
}

// ring is a file of keys: the signing key, the next key, and the retired keys,
// newest first. A key is published long before it signs, so that other services
// know it in time. Another process may change the file. Its methods are safe
// for concurrent use.
type ring struct {
	path string

	mu       sync.Mutex
	list     []key
	fileInfo os.FileInfo // info of the file from which list was read
}

// keys returns the keys to publish. The first one signs.
func (r *ring) keys() ([]key, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.refresh(); err != nil {
		return nil, err
	}
	if time.Since(r.list[0].signing) > rotateAfter {
		if err := r.rotate(); err != nil {
			return nil, err
		}
	}
	var current []key
	for _, k := range r.list {
		if k.retired.IsZero() || time.Since(k.retired) < keepRetired {
			current = append(current, k)
		}
	}
	return current, nil
}

func (r *ring) signing() (key, error) {
	keys, err := r.keys()
	if err != nil {
		return key{}, err
	}
	return keys[0], nil
}

// refresh reads the file if it has changed. The caller holds r.mu.
func (r *ring) refresh() error {
	info, err := os.Stat(r.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return r.change(func(list []key) ([]key, error) {
			if len(list) > 0 {
				return list, nil // another process has already created the keys
			}
			return withNext(nil)
		})
	case err != nil:
		return fmt.Errorf("identity's keys: %w", err)
	case r.fileInfo != nil && os.SameFile(r.fileInfo, info) && r.fileInfo.ModTime().Equal(info.ModTime()):
		return nil // every change creates a new file; compare the time too, because inode numbers are reused
	}
	list, err := readRing(r.path)
	if err != nil {
		return err
	}
	r.list, r.fileInfo = list, info
	return nil
}

// rotate makes the next key the signing key. The caller holds r.mu.
func (r *ring) rotate() error {
	was := r.list[0].id
	return r.change(func(list []key) ([]key, error) {
		if list[0].id != was {
			return list, nil // another process has already rotated the keys
		}
		return withNext(list)
	})
}

// withNext retires the signing key, makes the next key the signing key,
// generates a new next key, and drops expired retired keys.
func withNext(list []key) ([]key, error) {
	now := time.Now().UTC().Truncate(time.Second)
	fresh := func() (key, error) {
		private, err := rsa.GenerateKey(rand.Reader, bits)
		if err != nil {
			return key{}, fmt.Errorf("make a key: %w", err)
		}
		return newKey(private)
	}
	next, err := fresh()
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		first, err := fresh()
		first.signing = now
		return []key{first, next}, err
	}
	list[0].retired, list[1].signing = now, now
	after := []key{list[1], next, list[0]}
	for _, k := range list[2:] {
		if now.Sub(k.retired) < keepRetired {
			after = append(after, k)
		}
	}
	return after, nil
}

func newKey(private *rsa.PrivateKey) (key, error) {
	public := jose.JSONWebKey{Key: private.Public()}
	print, err := public.Thumbprint(crypto.SHA256)
	if err != nil {
		return key{}, fmt.Errorf("name a key: %w", err)
	}
	return key{id: base64.RawURLEncoding.EncodeToString(print), private: private}, nil
}

// change replaces the file, with a lock against other processes. The caller
// holds r.mu.
func (r *ring) change(to func([]key) ([]key, error)) error {
	dir, err := os.Open(filepath.Dir(r.path))
	if err != nil {
		return fmt.Errorf("identity's keys: %w", err)
	}
	defer func() { _ = dir.Close() }() // also releases the lock
	if err := lockfile.Block(dir); err != nil {
		return fmt.Errorf("lock identity's keys: %w", err)
	}
	list, err := readRing(r.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if list, err = to(list); err != nil {
		return err
	}
	if err := writeRing(r.path, list); err != nil {
		return fmt.Errorf("identity's keys: %w", err)
	}
	if err := dir.Sync(); err != nil {
		return fmt.Errorf("identity's keys: %w", err)
	}
	r.list = list
	r.fileInfo, err = os.Stat(r.path)
	return err
}

func writeRing(path string, list []key) error {
	var text bytes.Buffer
	for _, k := range list {
		der, err := x509.MarshalPKCS8PrivateKey(k.private)
		if err != nil {
			return err
		}
		block := &pem.Block{Type: blockType, Bytes: der, Headers: map[string]string{}}
		for name, at := range map[string]time.Time{headerSigning: k.signing, headerRetired: k.retired} {
			if !at.IsZero() {
				block.Headers[name] = at.Format(time.RFC3339)
			}
		}
		if err := pem.Encode(&text, block); err != nil {
			return err
		}
	}
	return atomicfile.Write(path, text.Bytes(), 0o600)
}

func readRing(path string) ([]key, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("identity's keys: %w", err)
	}
	list, err := parseRing(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: restore it, or remove it and restart: the server then makes new keys, which services that verify tokens fetch automatically", path, err)
	}
	return list, nil
}

func parseRing(text []byte) (list []key, err error) {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return nil, err
		}
		private, ok := parsed.(*rsa.PrivateKey)
		if !ok || private.N.BitLen() < bits {
			return nil, fmt.Errorf("a key is not an RSA key of %d bits", bits)
		}
		k, err := newKey(private)
		if err != nil {
			return nil, err
		}
		for name, at := range map[string]*time.Time{headerSigning: &k.signing, headerRetired: &k.retired} {
			if words := block.Headers[name]; words != "" {
				if *at, err = time.Parse(time.RFC3339, words); err != nil {
					return nil, err
				}
			}
		}
		list = append(list, k)
	}
	if len(list) < 2 || list[0].signing.IsZero() {
		return nil, errors.New("expected two keys, of which the first signs")
	}
	return list, nil
}

// Rotate makes the next key the signing key, in every server that uses the
// file. Tokens of the previous key stay valid.
func Rotate(path string) error {
	r := &ring{path: path}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.refresh(); err != nil {
		return err
	}
	return r.rotate()
}
