package safe

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"

	"gocloud.dev/secrets"
	"gocloud.dev/secrets/localsecrets"

	"aloft/internal/atomicfile"
)

// keyFile is the local keeper. Its keys are in a file that only the server's
// user can read, one per line, newest first.
type keyFile struct {
	path string

	mu   sync.Mutex
	keys []localKey
}

type localKey struct {
	name   string // "local:" and 16 hex digits of the key's hash
	text   string // key in base64
	keeper *secrets.Keeper
}

const keyFileHead = "# The keys of Aloft's secrets, the newest first. Without them no secret can be read: keep a copy, apart from the database's.\n"

func openKeyFile(path string) (*keyFile, error) {
	k := &keyFile{path: path}
	err := k.read()
	if errors.Is(err, fs.ErrNotExist) {
		err = k.Renew()
	}
	if err != nil {
		return nil, fmt.Errorf("keys of secrets: %w", err)
	}
	return k, nil
}

// read reads the file. The caller holds k.mu, or has just created k.
func (k *keyFile) read() error {
	info, err := os.Stat(k.path)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s can be read by others: chmod 600 it, and consider `aloft secret rotate`", k.path)
	}
	data, err := os.ReadFile(k.path)
	if err != nil {
		return err
	}
	var keys []localKey
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, err := newLocalKey(line)
		if err != nil {
			return fmt.Errorf("%s:%d: not a valid key: restore the file from a copy", k.path, number)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return fmt.Errorf("%s has no key: restore it from a copy, or remove it to start with a new key", k.path)
	}
	k.keys = keys
	return nil
}

func newLocalKey(text string) (localKey, error) {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw) != 32 {
		return localKey{}, errors.New("not 32 bytes in base64")
	}
	sum := sha256.Sum256(raw)
	return localKey{"local:" + hex.EncodeToString(sum[:8]), text, localsecrets.NewKeeper([32]byte(raw))}, nil
}

// Wrap implements [Keeper].
func (k *keyFile) Wrap(ctx context.Context, key []byte) ([]byte, string, error) {
	k.mu.Lock()
	newest := k.keys[0]
	k.mu.Unlock()
	wrapped, err := newest.keeper.Encrypt(ctx, key)
	return wrapped, newest.name, err
}

// Unwrap implements [Keeper]. It finds keys that another process has added to
// the file.
func (k *keyFile) Unwrap(ctx context.Context, name string, wrapped []byte) ([]byte, error) {
	if !strings.HasPrefix(name, "local:") {
		return nil, errNotMine
	}
	key, ok := k.find(name)
	if !ok {
		return nil, fmt.Errorf("its key %s is not in %s", name, k.path)
	}
	return key.keeper.Decrypt(ctx, wrapped)
}

func (k *keyFile) find(name string) (localKey, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for range 2 {
		for _, key := range k.keys {
			if key.name == name {
				return key, true
			}
		}
		if k.read() != nil {
			break
		}
	}
	return localKey{}, false
}

// Renew implements [Renewer].
func (k *keyFile) Renew() error {
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // never fails: crypto/rand crashes the process instead
	key, err := newLocalKey(base64.StdEncoding.EncodeToString(raw[:]))
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.write(append([]localKey{key}, k.keys...))
}

// Forget implements [Renewer].
func (k *keyFile) Forget(inUse map[string]bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	var keep []localKey
	for i, key := range k.keys {
		if i < 2 || inUse[key.name] {
			keep = append(keep, key)
		}
	}
	return k.write(keep)
}

// write replaces the file, and flushes it before a key in it is used. The
// caller holds k.mu.
func (k *keyFile) write(keys []localKey) (err error) {
	text := keyFileHead
	for _, key := range keys {
		text += key.text + "\n"
	}
	if err := atomicfile.Write(k.path, []byte(text), 0o600); err != nil {
		return err
	}
	k.keys = keys
	return nil
}
