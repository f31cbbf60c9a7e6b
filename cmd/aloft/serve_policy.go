package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/gateway"
	"aloft/internal/control/model"
	"aloft/internal/control/outbound"
	"aloft/internal/control/review"
	"aloft/internal/control/schedule"
	"aloft/internal/control/store"
	"aloft/internal/guest/hook"
	"aloft/internal/policy"
	"aloft/internal/policy/cage"
	"aloft/internal/policy/permit"
)

// policyConfig is how much agents may do without asking.
type policyConfig struct {
	RunMode         string   `yaml:"run_mode"`         // allowlist, auto-review or run-everything; the team's, the person's or the agent's unless given
	ClassifierModel string   `yaml:"classifier_model"` // id of the model that reviews calls; the agent's own unless given
	Sandbox         bool     `yaml:"sandbox"`          // under allowlist, run what is not on the list in the sandbox rather than ask
	SandboxHosts    string   `yaml:"sandbox_hosts"`    // where the rules of the sandbox's network come from: sandbox_json, sandbox_json_and_defaults (default) or allow_all
	SandboxAlso     []string `yaml:"sandbox_also"`     // what else runs in the sandbox than tool calls: hooks, start, terminals, mcp
	DenyAfter       string   `yaml:"deny_after"`       // how long a question waits before it counts as denied: 24h; unless given, the team's or the person's, or for ever
}

func (c policyConfig) check(models map[string]bool) error {
	if c.RunMode != "" {
		if _, err := permit.ParseMode(c.RunMode); err != nil {
			return fmt.Errorf("policy.run_mode: %w", err)
		}
	}
	if c.ClassifierModel != "" && !models[c.ClassifierModel] {
		return fmt.Errorf("policy.classifier_model: %q is not the id of a model", c.ClassifierModel)
	}
	if mode := cage.NetworkMode(c.SandboxHosts); mode != "" && !slices.Contains(cage.NetworkModes, mode) {
		return fmt.Errorf("policy.sandbox_hosts: %q: it is one of %v", c.SandboxHosts, cage.NetworkModes)
	}
	for _, what := range c.SandboxAlso {
		if !slices.Contains(schedule.Sandboxable, what) {
			return fmt.Errorf("policy.sandbox_also: %q: it is one of %v", what, schedule.Sandboxable)
		}
	}
	if c.DenyAfter != "" {
		if _, err := permit.ParseDenyAfter(c.DenyAfter); err != nil {
			return fmt.Errorf("policy.deny_after: %w", err)
		}
	}
	return nil
}

// denyAfter is the duration of the key, which check has read before.
func (c policyConfig) denyAfter() time.Duration {
	d, _ := time.ParseDuration(c.DenyAfter)
	return d
}

// newReviewer makes what decides how tool calls are treated.
func newReviewer(c policyConfig, rules store.Rules, g *gateway.Gateway, m *models) *review.Reviewer {
	return review.New(review.Config{
		Rules: rules, Project: projectFiles(g), Mode: permit.Mode(c.RunMode), Sandbox: c.Sandbox, Hosts: cage.NetworkMode(c.SandboxHosts), DenyAfter: c.denyAfter(),
		Model: func(a agent.Agent) (model.Model, model.Info, error) {
			return m.find(cmp.Or(c.ClassifierModel, a.Model))
		},
	})
}

// cageOf returns the sandbox around what is no tool call. A project's file does
// not take it away, and where one cannot be read it is the strictest.
func cageOf(c policyConfig, r *review.Reviewer) func(context.Context, agent.Agent, string) (*cage.Policy, error) {
	return func(ctx context.Context, a agent.Agent, what string) (*cage.Policy, error) {
		if !slices.Contains(c.SandboxAlso, what) {
			return nil, nil //nolint:nilnil // there is none
		}
		p, err := r.Cage(ctx, a)
		if review.Unreadable(err) || err == nil && p.Type == cage.InsecureNone {
			p, err = cage.Strictest(), nil
		}
		return &p, err
	}
}

// projectFiles reads files of agents' repositories at a commit.
func projectFiles(g *gateway.Gateway) func(ctx context.Context, a agent.Agent, commit, path string) ([]byte, error) {
	return func(ctx context.Context, a agent.Agent, commit, path string) ([]byte, error) {
		if commit == "" || len(a.Repos) == 0 {
			return nil, nil
		}
		url := a.Repos[0].URL
		data, err := g.File(ctx, url, commit, path)
		if err == nil {
			return data, nil
		}
		// The mirror may have been made anew since.
		if _, err := g.Check(ctx, url, commit); err != nil {
			return nil, err
		}
		return g.File(ctx, url, commit, path)
	}
}

// teamEgress is what the team had settled at a time of what machines may reach.
func teamEgress(rules store.Rules) func(context.Context, time.Time) (agent.Egress, error) {
	return func(ctx context.Context, at time.Time) (agent.Egress, error) {
		h, err := store.Settings(ctx, rules)
		then := h.At(at)
		return agent.Egress{Mode: then.NetworkMode, Allow: strings.Fields(then.NetworkAllow)}, err
	}
}

// foreignReach is how MCP servers that a repository names are reached: by the
// server's own rules, and no further than the agent's machine.
func foreignReach(own policy.Network, machine func(agent.Egress) (policy.Network, error)) func(agent.Egress) (*outbound.Client, error) {
	return func(e agent.Egress) (*outbound.Client, error) {
		machines, err := machine(e)
		if err != nil || machines.Mode == "" {
			return nil, err // it has no network
		}
		return outbound.New(policy.Narrow(own, machines))
	}
}

// originFiles reads them at the commits that the agents began with.
func originFiles(g *gateway.Gateway) func(context.Context, agent.Agent, string) ([]byte, error) {
	read := projectFiles(g)
	return func(ctx context.Context, a agent.Agent, path string) ([]byte, error) {
		return read(ctx, a, a.Origin, path)
	}
}

// hooksOf returns the hooks.json that the team and an agent's person have set.
func hooksOf(rules store.Rules, accounts store.Accounts) func(context.Context, agent.Agent) (schedule.Hooks, error) {
	return func(ctx context.Context, a agent.Agent) (schedule.Hooks, error) {
		var h schedule.Hooks
		for owner, to := range map[string]*[]byte{store.TeamRules: &h.Team, store.RulesOf(a.UserID): &h.User} {
			text, err := rules.Rule(ctx, owner, "hooks.json")
			if err != nil {
				return h, err
			}
			if text != "" {
				*to = []byte(text)
			}
		}
		u, err := accounts.User(ctx, a.UserID)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return h, err
		}
		h.Email = u.Email
		return h, nil
	}
}

// checkHooks returns what is wrong with a hooks.json, as a machine would warn.
func checkHooks(text []byte) error {
	if set := hook.Load(hook.Places{Team: text}); len(set.Warnings) > 0 {
		return errors.New(strings.Join(set.Warnings, "; "))
	}
	return nil
}

// sandboxHolds reports for which classes of machines the sandbox can hold its
// policy: those of gVisor, and those that share this host's kernel where that
// can. The sandbox looks again in the machine, and runs nothing where it cannot hold.
func sandboxHolds() func(class string) bool {
	holds := probeSandbox().OK
	return func(class string) bool { return holds || class == "strong" }
}
