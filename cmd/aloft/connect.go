package main

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

// connect returns a client of the server that was named, or that is found: a
// saved login, else a server on this machine. A key is only sent to the server
// that it belongs to.
func (a *app) connect() (*client.Client, error) {
	url, key := a.config.URL, a.config.Key
	if a.config.KeyFile != "" {
		data, err := os.ReadFile(a.config.KeyFile)
		if err != nil {
			return nil, usageError{fmt.Errorf("read the API key: %w", err)}
		}
		key = strings.TrimSpace(string(data))
	}
	saved, err := readLogin(a.config.Login)
	if err != nil {
		return nil, err
	}
	if saved.URL != "" && (url == "" || sameServer(url, saved.URL)) {
		url = saved.URL
		if key == "" {
			key = saved.APIKey
		}
	}
	if local, unread := localServer(a.config.Data); local.URL != "" && (url == "" || sameServer(url, local.URL)) {
		url = local.URL
		if key == "" {
			key = local.APIKey
		}
		if key == "" && unread != nil {
			return nil, &cli.Problem{
				Exit: cli.Denied, Code: "unauthorized", Message: fmt.Sprintf("the server on this machine has its key in a file that cannot be read: %v", unread),
				Hint: "run this as root, or set ALOFT_API_KEY to a key of this server", Err: unread,
			}
		}
	}
	if url == "" {
		return nil, &cli.Problem{
			Exit: cli.Usage, Code: "no_server", Message: "there is no server to speak to",
			Hint: "start one with `aloft serve`, sign in to one with `aloft login URL`, or set ALOFT_URL and ALOFT_API_KEY",
		}
	}
	if key == "" {
		return nil, &cli.Problem{
			Exit: cli.Denied, Code: "unauthorized", Message: "there is no API key for " + url,
			Hint: "sign in with `aloft login " + url + "`, or set ALOFT_API_KEY",
		}
	}
	return newClient(url, key)
}

func newClient(url, key string) (*client.Client, error) {
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, usageError{errors.New("that is not an API key: it has characters that no key has")}
	}
	c, err := client.New(url, key)
	if err != nil {
		return nil, usageError{err}
	}
	return c, nil
}

// login is a server and how to sign in there.
type login struct {
	URL    string `json:"url"`
	APIKey string `json:"apiKey"`
}

// readLogin returns the saved login; an empty one where there is none.
func readLogin(file string) (login, error) {
	var l login
	data, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return l, nil
	case err != nil:
		return l, usageError{fmt.Errorf("read the saved login: %w", err)}
	}
	if err := json.Unmarshal(data, &l); err != nil {
		return l, usageError{fmt.Errorf("the saved login %s is broken: %w; sign in again with `aloft login`", file, err)}
	}
	return l, nil
}

// write saves the login, for its owner alone.
func (l login) write(file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	data, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(file, append(data, '\n'), 0o600)
}

// localServer returns the server whose data folder this is, if it says where it
// listens. unread is why its key could not be read.
func localServer(dir string) (l login, unread error) {
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
