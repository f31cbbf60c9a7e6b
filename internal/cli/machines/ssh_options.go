package machines

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"

	"aloft/internal/atomicfile"
	"aloft/internal/cli/command"
	"aloft/internal/client"
	"aloft/internal/lockfile"
	"aloft/internal/sshconfig"
)

// knownHosts returns the path of the known_hosts file for machines, next to the saved
// login.
func (a *app) knownHosts() string { return filepath.Join(filepath.Dir(a.Config.Login), "known_hosts") }

// sshOptions returns the options that make ssh connect to machines through this program
// and the configured server.
func (a *app) sshOptions() ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	proxy := []string{self, "ssh-proxy"}
	if a.Config.URL != "" {
		proxy = append(proxy, "--url", a.Config.URL)
	}
	if a.Config.KeyFile != "" {
		file, err := filepath.Abs(a.Config.KeyFile)
		if err != nil {
			return nil, err
		}
		proxy = append(proxy, "--api-key-file", file)
	}
	options, err := sshconfig.Options(proxy, a.knownHosts())
	if err != nil {
		return nil, command.UsageError(err)
	}
	return options, nil
}

// agentOfHost returns the agent ID in a host name.
func agentOfHost(host string) string { return strings.TrimPrefix(host, "aloft.") }

// forgetOldKey removes the host's key from our known_hosts if the machine was
// recreated after the key was stored. It is safe to run in several processes at
// once.
func (a *app) forgetOldKey(host, boot string) error {
	file := a.knownHosts()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	lock, err := os.OpenFile(file+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close() // Close also unlocks
	if err := lockfile.Block(lock); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text := sshconfig.Forget(string(old), host, boot)
	if text == string(old) {
		return nil
	}
	return atomicfile.Write(file, []byte(text), 0o600)
}

// dialSSH opens an SSH connection from this program to an agent's machine.
func dialSSH(ctx context.Context, c *client.Client, agentID string) (*ssh.Client, error) {
	conn, _, err := c.OpenSSH(ctx, agentID)
	if err != nil {
		return nil, err
	}
	session, channels, requests, err := ssh.NewClientConn(conn, agentID, &ssh.ClientConfig{
		User: "ubuntu",
		// The server has already authenticated the connection to this agent's machine, so
		// checking the host key adds nothing.
		HostKeyCallback: ssh.InsecureIgnoreHostKey(), //nolint:gosec // see above
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the machine's SSH server does not answer: %w", err), conn.Close())
	}
	return ssh.NewClient(session, channels, requests), nil
}
