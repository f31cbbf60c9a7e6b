package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"aloft/internal/atomicfile"
	"aloft/internal/cli"
	"aloft/internal/client"
)

// Connect returns a client for the configured server, or else for the saved
// login, or else for a server on this computer. The client sends a key only to
// the server to which the key belongs.
func (a *App) Connect() (*client.Client, error) {
	url, key := a.Config.URL, a.Config.Key
	if a.Config.KeyFile != "" {
		data, err := os.ReadFile(a.Config.KeyFile)
		if err != nil {
			return nil, UsageError(fmt.Errorf("read the API key: %w", err))
		}
		key = strings.TrimSpace(string(data))
	}
	saved, err := readLogin(a.Config.Login)
	if err != nil {
		return nil, err
	}
	if saved.URL != "" && (url == "" || sameServer(url, saved.URL)) {
		url = saved.URL
		if key == "" {
			key = saved.APIKey
		}
	}
	if local, unread := localServer(a.Config.Data); local.URL != "" && (url == "" || sameServer(url, local.URL)) {
		url = local.URL
		if key == "" {
			key = local.APIKey
		}
		if key == "" && unread != nil {
			return nil, &cli.Problem{
				Exit: cli.Denied, Code: "unauthorized", Message: fmt.Sprintf("cannot read the key file of the server on this computer: %v", unread),
				Hint: "run this as root, or set ALOFT_API_KEY to a key for this server", Err: unread,
			}
		}
	}
	if url == "" {
		return nil, &cli.Problem{
			Exit: cli.Usage, Code: "no_server", Message: "no server found",
			Hint: "start one with `aloft serve`, sign in to one with `aloft login URL`, or set ALOFT_URL and ALOFT_API_KEY",
		}
	}
	if key == "" {
		return nil, &cli.Problem{
			Exit: cli.Denied, Code: "unauthorized", Message: "no API key for " + url,
			Hint: "sign in with `aloft login " + url + "`, or set ALOFT_API_KEY",
		}
	}
	return NewClient(url, key)
}

// NewClient returns a client for the server at url. It returns a usage error if url or
// key is invalid.
func NewClient(url, key string) (*client.Client, error) {
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, UsageError(errors.New("invalid API key: it contains characters that are never part of a key"))
	}
	c, err := client.New(url, key)
	if err != nil {
		return nil, UsageError(err)
	}
	return c, nil
}

// Login is a saved server and its API key.
type Login struct {
	URL    string `json:"url"`
	APIKey string `json:"apiKey"`
}

// readLogin returns the saved login, or an empty one if there is none.
func readLogin(file string) (Login, error) {
	var l Login
	data, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return l, nil
	case err != nil:
		return l, UsageError(fmt.Errorf("read the saved login: %w", err))
	}
	if err := json.Unmarshal(data, &l); err != nil {
		return l, UsageError(fmt.Errorf("the saved login %s is not valid: %w; sign in again with `aloft login`", file, err))
	}
	return l, nil
}

// Write saves the login in a file that only its owner can read.
func (l Login) Write(file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	data, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(file, append(data, '\n'), 0o600)
}

// localServer returns the server that uses the data folder dir, if the folder
// records its address. unread is the error from reading the server's key, if
// any.
func localServer(dir string) (l Login, unread error) {
	url, err := os.ReadFile(filepath.Join(dir, "server.url"))
	if err != nil {
		return l, nil
	}
	l.URL = strings.TrimSpace(string(url))
	key, err := os.ReadFile(filepath.Join(dir, "admin.key"))
	l.APIKey = strings.TrimSpace(string(key))
	return l, err
}

func sameServer(a, b string) bool { return strings.TrimRight(a, "/") == strings.TrimRight(b, "/") }
