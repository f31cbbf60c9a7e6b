package server

import (
	"fmt"
	"time"

	"aloft/internal/control/inbound"
)

// connectionConfig is a sender of events, such as a forge with a webhook.
type connectionConfig struct {
	Name       string `yaml:"name"`        // name in the URL of its webhook: /hooks/SOURCE/NAME
	Source     string `yaml:"source"`      // github, gitlab, gitea (also for Forgejo) or generic
	Host       string `yaml:"host"`        // host of the repositories that it reports on
	Secret     string `yaml:"secret"`      // key with which it signs events
	SecretEnv  string `yaml:"secret_env"`  // or the environment variable with the secret
	SecretFile string `yaml:"secret_file"` // or a file with the secret, relative to the configuration's folder
}

// pullRequestsConfig configures how agents follow their open pull requests.
type pullRequestsConfig struct {
	Poll   string `yaml:"poll"`   // interval of reading them without an event; 0s means never
	Gather string `yaml:"gather"` // delay between an event and reading them, so that a burst of events causes one follow-up
}

// minPoll is the minimum of the key poll, to limit the load on forges.
const minPoll = 10 * time.Second

func (c pullRequestsConfig) check() error {
	poll, err := time.ParseDuration(c.Poll)
	if err != nil || poll != 0 && poll < minPoll {
		return fmt.Errorf("pull_requests.poll: invalid duration %q: use a value such as 2m, at least 10s, or 0s for never", c.Poll)
	}
	if d, err := time.ParseDuration(c.Gather); err != nil || d < 0 || d > time.Hour {
		return fmt.Errorf("pull_requests.gather: invalid duration %q: use a value such as 1m, at most 1h", c.Gather)
	}
	return nil
}

// checkConnections validates the connections and reads their secrets.
func (c *Config) checkConnections(dir string, getenv func(string) string) error {
	seen := map[string]bool{}
	for i := range c.Connections {
		conn := &c.Connections[i]
		at := fmt.Sprintf("connections[%d]", i)
		if err := fromEnv(&conn.Secret, conn.SecretEnv, at+".secret", getenv); err != nil {
			return err
		}
		if err := fromFile(&conn.Secret, dir, conn.SecretFile, at+".secret"); err != nil {
			return err
		}
		if conn.Secret == "" {
			return fmt.Errorf("%s.secret is missing: set secret_env or secret_file; without it, anybody could send events", at)
		}
		of := inbound.Connection{Name: conn.Name, Source: conn.Source, Host: conn.Host, Secret: conn.Secret}
		if err := of.Check(); err != nil {
			return fmt.Errorf("%s.%w", at, err)
		}
		conn.Host = of.Host
		if seen[conn.Source+"/"+conn.Name] {
			return fmt.Errorf("%s.name: duplicate connection %q of the source %s", at, conn.Name, conn.Source)
		}
		seen[conn.Source+"/"+conn.Name] = true
	}
	return nil
}

// follows reports whether open pull requests are read at all.
func (c *Config) follows() bool { return len(c.Connections) > 0 || duration(c.PullRequests.Poll) > 0 }

// connections returns the connections. check has already validated them.
func (c *Config) connections() (all []inbound.Connection) {
	for _, conn := range c.Connections {
		all = append(all, inbound.Connection{Name: conn.Name, Source: conn.Source, Host: conn.Host, Secret: conn.Secret})
	}
	return all
}
