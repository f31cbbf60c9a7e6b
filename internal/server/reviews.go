package server

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"aloft/internal/agent"
	"aloft/internal/control/agents"
	"aloft/internal/control/autoreview"
	"aloft/internal/control/forge"
	"aloft/internal/control/inbound"
	"aloft/internal/control/mention"
	"aloft/internal/control/store"
	"aloft/internal/fault"
)

// reviewsConfig configures reviews of pull requests.
type reviewsConfig struct {
	Repositories []string `yaml:"repositories"` // URLs of repositories whose pull requests are reviewed automatically
	Owner        string   `yaml:"owner"`        // e-mail address of the account that owns the reviewing agents
	Authors      string   `yaml:"authors"`      // whose pull requests are reviewed: writers or anyone
	FailOn       string   `yaml:"fail_on"`      // minimum severity at which findings fail the status of a commit; "" means never
}

// anyone is the value of reviews.authors for everybody.
const anyone = "anyone"

// check validates the reviews. connected reports whether a connection sends the events of a
// host.
func (c *reviewsConfig) check(connected func(host string) bool) error {
	switch agent.Severity(c.FailOn) {
	case "", agent.Low, agent.Medium, agent.High:
	default:
		return fmt.Errorf("reviews.fail_on: invalid value %q: must be low, medium, high or absent", c.FailOn)
	}
	if c.Authors != "writers" && c.Authors != anyone {
		return fmt.Errorf("reviews.authors: invalid value %q: must be writers or anyone", c.Authors)
	}
	if c.Owner != "" && !strings.Contains(c.Owner, "@") {
		return fmt.Errorf("reviews.owner: invalid value %q: use the e-mail address of an account", c.Owner)
	}
	if len(c.Repositories) > 0 && c.Owner == "" {
		return errors.New("reviews.owner: is missing: it is the e-mail address of the account that owns the reviewing agents")
	}
	for i, raw := range c.Repositories {
		r, err := forge.ParseURL(raw)
		if err != nil {
			return fmt.Errorf("reviews.repositories[%d]: invalid value: %w", i, err)
		}
		if !connected(r.Host) {
			return fmt.Errorf("reviews.repositories[%d]: no connection sends the events of %s: add one to connections", i, r.Host)
		}
	}
	return nil
}

// connected reports whether a connection sends the events of a host.
func (c *Config) connected(host string) bool {
	for _, conn := range c.Connections {
		if strings.EqualFold(conn.Host, host) {
			return true
		}
	}
	return false
}

// automatic returns a handler that starts reviews of the configured repositories, and passes
// events on to next.
func (a *assembly) automatic(next inbound.Handler) (inbound.Handler, error) {
	c := a.config.Reviews
	var repos []forge.Repo
	for i, raw := range c.Repositories {
		r, err := forge.ParseURL(raw)
		if err == nil {
			_, r, err = a.pulls.Forges.Find(r)
		}
		if err != nil {
			return nil, UsageError{fmt.Errorf("reviews.repositories[%d]: %w", i, err)}
		}
		repos = append(repos, r)
	}
	if len(repos) == 0 {
		return next, nil
	}
	return autoreview.New(autoreview.Config{
		Forges: a.pulls.Forges, Repos: repos, Anyone: c.Authors == anyone, ID: agents.ReservedID, Next: next, Start: a.startReview, Logger: a.logger,
	}), nil
}

// startReview starts an agent of the configured account that reviews a pull request.
func (a *assembly) startReview(ctx context.Context, agentID, prURL string) error {
	user, err := a.store.UserByEmail(ctx, a.config.Reviews.Owner)
	if errors.Is(err, store.ErrNotFound) {
		return fault.Denied("the account in reviews.owner of the server's configuration does not exist")
	}
	if err != nil {
		return err
	}
	return starter{a}.Review(ctx, mention.Start{AgentID: agentID, UserID: user.ID, Prompt: "Review the change.", PullRequest: prURL})
}
