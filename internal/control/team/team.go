// Package team combines the team's settings with the operator's configuration,
// and decides which values apply to an agent. It also decides whether an agent
// is affected by a setting that has changed since the agent was created.
package team

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/allowance"
	"aloft/internal/control/review"
	"aloft/internal/control/store"
	"aloft/internal/policy/sandbox"
	"aloft/internal/rule"
)

// A Policy decides for one server. Its methods are safe for concurrent use.
type Policy struct {
	Store     Store
	Limit     allowance.Amount // the operator's limit per run; 0 means none
	Retention time.Duration    // how long the operator keeps an unused machine; 0 means no limit
	// Reviewers maps a host, and there the lower-case e-mail address of a
	// member, to the login who reviews that member's pull requests.
	Reviewers map[string]map[string]string
	// Sandboxed lists the processes other than tool calls that run in the
	// sandbox.
	Sandboxed []string
}

// Store is the part of the store that a policy reads.
type Store interface {
	store.Rules
	User(ctx context.Context, id int64) (account.User, error)
	Users(ctx context.Context) ([]account.User, error)
}

// Private reports whether a run is in privacy mode: according to its journal,
// or otherwise according to the setting when the run was requested.
func (p *Policy) Private(ctx context.Context, r agent.Run) (bool, error) {
	return store.PrivacyOf(ctx, p.Store, r)
}

// ShownOutside reports whether summaries of a run may be sent outside the
// server. That depends on the display setting when the agent was created, and on
// the run's privacy mode.
func (p *Policy) ShownOutside(ctx context.Context, a agent.Agent, r agent.Run) (bool, error) {
	private, err := p.Private(ctx, r)
	if private || err != nil {
		return false, err
	}
	then, err := p.then(ctx, a.CreatedAt)
	return err == nil && then.ShownOutside(), err
}

// MayReach returns a fault unless the user may run agents on the repository.
// User 0 stands for the team, which may use all repositories.
func (p *Policy) MayReach(ctx context.Context, userID int64, repoURL string) error {
	return store.MayReach(ctx, p.Store, p.Store, userID, repoURL)
}

// Egress returns the hosts that machines may connect to, according to the
// settings at the given time.
func (p *Policy) Egress(ctx context.Context, at time.Time) (agent.Egress, error) {
	then, err := p.then(ctx, at)
	return agent.Egress{Mode: then.NetworkMode, Allow: strings.Fields(then.NetworkAllow)}, err
}

// MachineRetention returns how long an agent's unused machine is kept: the
// team's value when the agent was created, but at most the operator's.
func (p *Policy) MachineRetention(ctx context.Context, a agent.Agent) (time.Duration, error) {
	then, err := p.then(ctx, a.CreatedAt)
	return then.KeepMachines(p.Retention), err
}

// Limits returns the limits of an agent's runs: the stricter of the operator's
// limits and the team's limits at the agent's creation.
func (p *Policy) Limits(ctx context.Context, a agent.Agent) (allowance.Amount, error) {
	then, err := p.then(ctx, a.CreatedAt)
	return allowance.Strictest(p.Limit, then.Limit), err
}

// FixesChecks reports whether agents fix failed checks of their pull requests.
func (p *Policy) FixesChecks(ctx context.Context) (bool, error) {
	h, err := store.Settings(ctx, p.Store)
	return !h.Now().NoAutofix, err
}

// ReviewersOf returns the logins from whom to request reviews of an agent's
// pull requests on the host. That is the reviewer of the agent's owner, if the
// operator has configured one.
func (p *Policy) ReviewersOf(ctx context.Context, a agent.Agent, host string) ([]string, error) {
	if len(p.Reviewers[host]) == 0 {
		return nil, nil
	}
	users, err := p.Store.Users(ctx)
	if err != nil {
		return nil, err
	}
	for _, u := range users {
		if login := p.Reviewers[host][strings.ToLower(u.Email)]; u.ID == a.UserID && login != "" {
			return []string{login}, nil
		}
	}
	return nil, nil
}

// Rules returns the rules and skills with which the team and an agent's owner
// tell agents how to work.
func (p *Policy) Rules(ctx context.Context, a agent.Agent) (rules []rule.Rule, err error) {
	for _, of := range []struct {
		from  rule.From
		owner string
	}{{rule.Team, store.TeamRules}, {rule.User, store.RulesOf(a.UserID)}} {
		text, err := p.Store.Rule(ctx, of.owner, rule.File)
		if err != nil {
			return nil, err
		}
		if text = strings.TrimSpace(text); text != "" {
			rules = append(rules, rule.Rule{Source: rule.File, From: of.from, When: rule.Always, Text: text})
		}
		if text, err = p.Store.Rule(ctx, of.owner, rule.SkillsFile); err != nil {
			return nil, err
		}
		if text != "" {
			skills, _, _ := rule.ParseSkills(of.from, text) // the API has checked it
			rules = append(rules, skills...)
		}
	}
	draft, err := p.Store.Rule(ctx, store.TeamRules, rule.DraftFile)
	if err == nil && draft != "" {
		skills, _, _ := rule.ParseSkills(rule.Team, draft) // the API has checked it
		rules = append(rules, rule.Drafts(skills)...)
	}
	return rules, err
}

// Hooks are the hooks.json of the team and of an agent's owner.
type Hooks struct {
	Team, User []byte // nil if there is none
	Email      string // e-mail address of the owner; "" if unknown
}

// Hooks returns the hooks that apply to an agent.
func (p *Policy) Hooks(ctx context.Context, a agent.Agent) (h Hooks, err error) {
	for owner, to := range map[string]*[]byte{store.TeamRules: &h.Team, store.RulesOf(a.UserID): &h.User} {
		text, err := p.Store.Rule(ctx, owner, "hooks.json")
		if err != nil {
			return h, err
		}
		if text != "" {
			*to = []byte(text)
		}
	}
	u, err := p.Store.User(ctx, a.UserID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return h, err
	}
	h.Email = u.Email
	return h, nil
}

// Reviewer returns the sandbox policy that results from the rules for an agent.
type Reviewer interface {
	SandboxPolicy(ctx context.Context, a agent.Agent) (sandbox.Policy, error)
}

// Sandbox returns the sandbox policy for processes other than tool calls, or
// nil if those are not sandboxed. A project's file cannot turn the sandbox off.
// If a policy file cannot be read, the strictest policy applies.
func (p *Policy) Sandbox(ctx context.Context, r Reviewer, a agent.Agent, what string) (*sandbox.Policy, error) {
	if !slices.Contains(p.Sandboxed, what) {
		return nil, nil //nolint:nilnil // not sandboxed
	}
	of, err := r.SandboxPolicy(ctx, a)
	if review.Unreadable(err) || err == nil && of.Type == sandbox.InsecureNone {
		of, err = sandbox.Strictest(), nil
	}
	return &of, err
}

// then returns the settings at the given time.
func (p *Policy) then(ctx context.Context, at time.Time) (account.Settings, error) {
	h, err := store.Settings(ctx, p.Store)
	return h.At(at), err
}
