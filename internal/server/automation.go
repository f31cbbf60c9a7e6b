package server

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/agents"
	"aloft/internal/control/automation"
	"aloft/internal/control/forge"
	"aloft/internal/control/gateway"
	"aloft/internal/control/inbound"
	"aloft/internal/control/model"
	"aloft/internal/control/store"
	"aloft/internal/fault"
)

// automationsConfig configures the repositories whose files define automations.
type automationsConfig struct {
	Repositories []string `yaml:"repositories"` // URLs
	Owner        string   `yaml:"owner"`        // e-mail address of the account that owns the agents
	Poll         string   `yaml:"poll"`         // interval of reading the files
}

func (c automationsConfig) check() error {
	for i, raw := range c.Repositories {
		if _, err := forge.ParseURL(raw); err != nil {
			return fmt.Errorf("automations.repositories[%d]: invalid value: %w", i, err)
		}
	}
	if len(c.Repositories) > 0 && !strings.Contains(c.Owner, "@") {
		return fmt.Errorf("automations.owner: invalid value %q: use the e-mail address of the account that owns the agents", c.Owner)
	}
	if d, err := time.ParseDuration(c.Poll); err != nil || d < minPoll {
		return fmt.Errorf("automations.poll: invalid duration %q: use a value such as 5m, at least 10s", c.Poll)
	}
	return nil
}

// openAutomations creates the desk that starts automations.
func (a *assembly) openAutomations(context.Context) error {
	a.automations = automation.New(automation.Config{
		Store: a.store, Agents: automated{a}, Owner: a.store.ServerID(), Forges: a.pulls.Forges, AgentID: agents.ReservedID, Secrets: a.configured, Logger: a.logger,
	})
	return nil
}

// runAutomations starts automations until ctx ends.
func (s *Server) runAutomations(ctx context.Context) error {
	var following sync.WaitGroup
	defer following.Wait()
	if len(s.config.Automations.Repositories) > 0 {
		following.Go(func() {
			s.automations.Follow(ctx, automationFiles{s.gateway}, s.store, s.automationRepos, duration(s.config.Automations.Poll))
		})
	}
	return s.automations.Run(ctx)
}

// automationRepos returns the repositories whose files define automations.
func (s *Server) automationRepos(ctx context.Context) (all []automation.Repository, err error) {
	owner, err := s.store.UserByEmail(ctx, s.config.Automations.Owner)
	if err != nil {
		return nil, fmt.Errorf("the account in automations.owner of the configuration: %w", err)
	}
	for _, url := range s.config.Automations.Repositories {
		all = append(all, automation.Repository{URL: url, UserID: owner.ID})
	}
	return all, nil
}

// receivedEvent returns a received event whose body is still stored.
func (a *assembly) receivedEvent(ctx context.Context, id string) (inbound.Event, error) {
	e, err := a.store.InboundEvent(ctx, id)
	switch {
	case err != nil:
		return inbound.Event{}, err
	case a.inbox == nil:
		return inbound.Event{}, store.ErrNotFound
	case !e.Kept:
		return inbound.Event{}, store.ErrBodyGone
	}
	return a.inbox.Describe(e), nil
}

// permits returns a function that reports whether an agent may use a tool.
func (a *assembly) permits(ctx context.Context, agentID string) (func(string) bool, error) {
	n, err := automation.NarrowingOf(ctx, a.store, agentID)
	return n.Permits, err
}

// narrowed returns the network restriction of a single agent.
func (a *assembly) narrowed(ctx context.Context, agentID string) (agent.Egress, error) {
	n, err := automation.NarrowingOf(ctx, a.store, agentID)
	return n.Egress(), err
}

// inherit restricts a fork like the agent that it is forked from.
func (a *assembly) inherit(ctx context.Context, agentID, forkID string) error {
	return automation.Inherit(ctx, a.store, agentID, forkID)
}

// automated starts the agents of automations under the same rules as requests by
// their owners.
type automated struct{ *assembly }

// Start implements [automation.Agents].
func (s automated) Start(ctx context.Context, n automation.Start) error {
	owner, err := agents.ActFor(ctx, s.store, n.UserID)
	if errors.Is(err, store.ErrNotFound) {
		return fault.Denied("the account that owns the automation does not exist").Hint("let another account own it")
	}
	if err != nil {
		return err
	}
	_, err = s.api.Agents.Creator().Create(ctx, automatedRequest(n, owner))
	return err
}

// automatedRequest returns the request for the agent of a start.
func automatedRequest(n automation.Start, owner account.APIKey) agents.Request {
	q := agents.Request{By: owner, ID: n.AgentID, RunID: n.RunID, Prompt: agents.Prompt{Text: n.Prompt}, Name: &n.Name, Limits: &n.Limit}
	if n.Spec.On.Event != nil { // also of a start by hand, which quotes the results of earlier ones
		q.Event = agent.ByEvent
	}
	repo := agents.Repository{URL: n.Spec.Repository}
	if n.Spec.StartingRef != "" {
		repo.StartingRef = &n.Spec.StartingRef
	}
	q.Repos = []agents.Repository{repo}
	q.PullRequest.Auto = n.Spec.PullRequest
	if n.Spec.Model != "" {
		q.Model = &model.Ref{ID: n.Spec.Model}
	}
	if n.Spec.Environment != "" {
		q.Environment = &agents.Environment{Type: "cloud", Name: &n.Spec.Environment}
	}
	return q
}

// Cancel implements [automation.Agents].
func (s automated) Cancel(ctx context.Context, agentID, runID string) error {
	a, err := s.store.Agent(ctx, agentID)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	user, err := s.store.User(ctx, a.UserID)
	if err != nil {
		return err
	}
	err = s.api.Agents.CancelRun(ctx, account.APIKey{UserID: user.ID, Role: user.Role}, agentID, runID)
	if fault.Of(err).Code == "run_not_cancellable" || errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// automationFiles reads the files that define automations from the git gateway's
// mirrors.
type automationFiles struct{ gateway *gateway.Gateway }

// Automations implements [automation.Files].
func (f automationFiles) Automations(ctx context.Context, repoURL, known string) (commit string, files map[string][]byte, err error) {
	info, err := f.gateway.Check(ctx, repoURL, "")
	if err != nil || info.Commit == known {
		return known, nil, err
	}
	found := map[string]gateway.Blob{}
	err = f.gateway.Walk(ctx, repoURL, info.Commit, func(name string, b gateway.Blob) {
		ext := path.Ext(name)
		if path.Dir(name) == automation.Folder && (ext == ".yaml" || ext == ".yml") && len(found) < automation.MaxFiles {
			found[name] = b
		}
	})
	if err != nil {
		return known, nil, err
	}
	files = map[string][]byte{}
	for name, b := range found {
		if files[name], err = f.gateway.Contents(ctx, repoURL, b, automation.MaxSpec+1); err != nil {
			return known, nil, err
		}
	}
	return info.Commit, files, nil
}
