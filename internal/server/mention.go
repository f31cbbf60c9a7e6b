package server

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/agents"
	"aloft/internal/control/forge"
	"aloft/internal/control/mention"
	"aloft/internal/control/model"
	"aloft/internal/control/store"
	"aloft/internal/fault"
)

// mentionsConfig configures who can start agents by mentioning them on a forge.
type mentionsConfig struct {
	Handle   string            `yaml:"handle"`   // name that people write after an @
	Accounts map[string]string `yaml:"accounts"` // e-mail address of the account for HOST/LOGIN
	Owner    string            `yaml:"owner"`    // e-mail address of the account for all other logins
	Poll     []string          `yaml:"poll"`     // URLs of repositories to read from time to time
}

var handlePattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,37}[a-z0-9])?$`)

func (c *mentionsConfig) check(poll time.Duration) error {
	if !handlePattern.MatchString(c.Handle) {
		return fmt.Errorf("mentions.handle: invalid value %q: use lower-case letters, digits and dashes, without @", c.Handle)
	}
	if c.Owner != "" && !strings.Contains(c.Owner, "@") {
		return fmt.Errorf("mentions.owner: invalid value %q: use the e-mail address of an account", c.Owner)
	}
	for i, raw := range c.Poll {
		if _, err := forge.ParseURL(raw); err != nil {
			return fmt.Errorf("mentions.poll[%d]: invalid value: %w", i, err)
		}
	}
	switch {
	case len(c.Poll) > 0 && !c.isOn():
		return errors.New("mentions.poll: set mentions.accounts or mentions.owner, too: without them, mentions start no agents")
	case len(c.Poll) > 0 && poll == 0:
		return errors.New("mentions.poll: set pull_requests.poll, too: it is how often the repositories are read")
	}
	for _, who := range slices.Sorted(maps.Keys(c.Accounts)) {
		host, login, ok := strings.Cut(who, "/")
		if !ok || host == "" || login == "" || strings.ContainsAny(login, "/ @") || !strings.Contains(c.Accounts[who], "@") {
			return fmt.Errorf("mentions.accounts: invalid entry %q: %q: map a host and login to the e-mail address of an account, such as github.com/ada: ada@example.com", who, c.Accounts[who])
		}
	}
	return nil
}

// isOn reports whether mentions can start agents.
func (c *mentionsConfig) isOn() bool { return c.Owner != "" || len(c.Accounts) > 0 }

// email returns the e-mail address of the account for a login, or "".
func (c *mentionsConfig) email(host, login string) string {
	for who, address := range c.Accounts {
		if strings.EqualFold(who, host+"/"+login) {
			return address
		}
	}
	return c.Owner
}

// openMentions creates the desk that works on mentions. It gets events before
// the desk that follows pull requests.
func (a *assembly) openMentions() {
	var repos []forge.Repo
	for _, raw := range a.config.Mentions.Poll {
		if r, err := forge.ParseURL(raw); err == nil { // check has validated the URL
			repos = append(repos, r)
		}
	}
	a.mentions = mention.New(mention.Config{
		Repos: repos, Poll: duration(a.config.PullRequests.Poll),
		Store: a.store, Agents: starter{a}, Owner: a.store.ServerID(), Forges: a.pulls.Forges, Handle: a.config.Mentions.Handle, Next: a.follow,
		Account: a.accountOf, ID: agents.ReservedID, RepoURL: a.repoURL, Secrets: a.configured, Shown: a.team.ShownOutside,
		Page:   func(id string) string { return strings.TrimSuffix(localhostName(a.publicURL()), "/") + "/agents/" + id },
		Models: func() []string { return a.api.Models.IDs() },
		Mark:   a.mark,
		Logger: a.logger,
	})
}

// mark returns a key derived from the words. Only a server with the same secret
// can compute it.
func (a *assembly) mark(words ...string) string {
	mac := hmac.New(sha256.New, append([]byte("marks "), a.secret...))
	mac.Write([]byte(strings.Join(words, "\x00")))
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// accountOf returns the user who owns the agents that a login starts.
func (a *assembly) accountOf(ctx context.Context, host, login string) (int64, error) {
	address := a.config.Mentions.email(host, login)
	if address == "" {
		return 0, fault.Denied("no account of this server belongs to the login %s", forge.Line(login, 100)).
			Hint("ask an admin to add it to mentions.accounts in the server's configuration")
	}
	user, err := a.store.UserByEmail(ctx, address)
	if errors.Is(err, store.ErrNotFound) {
		return 0, fault.Denied("the account that the server's configuration names for the login %s does not exist", forge.Line(login, 100)).
			Hint("ask an admin to correct mentions in the configuration")
	}
	return user.ID, err
}

// repoURL returns the URL to clone a repository, with the scheme of the
// credential for its host.
func (a *assembly) repoURL(r forge.Repo) string {
	for _, cred := range a.config.Git.Credentials {
		if of, err := cred.Covers(); err == nil && of.Host == r.Host {
			if u, err := url.Parse(cred.URL); err == nil {
				return u.Scheme + "://" + r.String()
			}
		}
	}
	return "https://" + r.String()
}

// starter starts agents under the same rules as requests by their owners.
type starter struct{ *assembly }

// Start implements [mention.Agents].
func (s starter) Start(ctx context.Context, n mention.Start) error {
	owner, err := agents.ActFor(ctx, s.store, n.UserID)
	if err != nil {
		return err
	}
	_, err = s.api.Agents.Creator().Create(ctx, requestOf(n, owner))
	return err
}

// requestOf returns the request for the agent of a mention. If the mention is
// on a pull request, the agent pushes to the branch of that pull request.
// Otherwise the agent opens a pull request.
func requestOf(n mention.Start, owner account.APIKey) agents.Request {
	q := agents.Request{By: owner, ID: n.AgentID, RunID: agent.NewRunID(), Event: agent.ByMention, Prompt: agents.Prompt{Text: n.Prompt}}
	repo := agents.Repository{URL: n.RepoURL}
	switch {
	case n.PullRequest != "":
		repo = agents.Repository{PullRequest: &n.PullRequest}
	case n.Branch != "":
		repo.StartingRef = &n.Branch
	}
	q.Repos = []agents.Repository{repo}
	q.WorkOnCurrentBranch, q.PullRequest.Auto = n.PullRequest != "", n.PullRequest == ""
	if n.Model != "" {
		q.Model = &model.Ref{ID: n.Model}
	}
	return q
}

// Review implements [mention.Agents].
func (s starter) Review(ctx context.Context, n mention.Start) error {
	owner, err := agents.ActFor(ctx, s.store, n.UserID)
	if err != nil {
		return err
	}
	q := agents.Request{By: owner, ID: n.AgentID, RunID: agent.NewRunID(), Prompt: agents.Prompt{Text: n.Prompt}, Review: &agents.Review{PullRequest: &n.PullRequest}}
	if n.Model != "" {
		q.Model = &model.Ref{ID: n.Model}
	}
	_, err = s.api.Agents.Creator().Create(ctx, q)
	return err
}

// FollowUp implements [mention.Agents].
func (s starter) FollowUp(ctx context.Context, agentID, runID, prompt, model string) error {
	return s.api.Agents.FollowUp(ctx, agentID, runID, agent.ByMention, prompt, model)
}
