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

// hostKey returns the key in the state folder. One that is missing or broken
// is made anew: the folder does not outlive the machine's present life, so that
// two machines that began as copies of one are told apart.
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
