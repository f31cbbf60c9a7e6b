package egress

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"aloft/internal/policy"
)

// Logs is a folder of connection logs. Each log is a subfolder with the log's
// name.
type Logs string

// Make returns the folder of a log, and creates it if necessary.
func (l Logs) Make(name string) (string, error) {
	dir, err := l.path(name)
	if err != nil {
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o700)
}

func (l Logs) path(name string) (string, error) {
	if name == "." || filepath.Base(name) != name || !filepath.IsLocal(name) {
		return "", fmt.Errorf("log of connections: invalid name %q", name)
	}
	return filepath.Join(string(l), name), nil
}

// Read returns the connections in a log; see [ReadLog]. It returns none if the
// log is missing.
func (l Logs) Read(_ context.Context, name string) ([]policy.Connection, error) {
	dir, err := l.path(name)
	if err != nil {
		return nil, err
	}
	return ReadLog(dir)
}

// Remove removes a log.
func (l Logs) Remove(_ context.Context, name string) error {
	dir, err := l.path(name)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("log of connections %s: %w", name, err)
	}
	return nil
}

// List returns the names of all logs.
func (l Logs) List(context.Context) ([]string, error) {
	entries, err := os.ReadDir(string(l))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("logs of connections: %w", err)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}
