package sshd

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/crypto/ssh"

	"aloft/internal/atomicfile"
)

// hostKey returns the host key in the state folder, and creates a new one if it is
// missing or invalid. A restart of the machine removes the folder, so that two machines
// made from one snapshot have different keys.
func hostKey(dir string) (ssh.Signer, error) {
	path := filepath.Join(dir, "ssh_host_ed25519_key")
	data, err := os.ReadFile(path)
	switch {
	case err == nil:
		if key, err := ssh.ParsePrivateKey(data); err == nil {
			return key, nil
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("ssh host key: %w", err)
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("ssh host key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		return nil, fmt.Errorf("ssh host key: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("ssh host key: %w", err)
	}
	if err := atomicfile.WriteUnsynced(path, pem.EncodeToMemory(block), 0o600); err != nil {
		return nil, fmt.Errorf("ssh host key: %w", err)
	}
	return ssh.NewSignerFromKey(private)
}
