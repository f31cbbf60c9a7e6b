package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/fleet"
	"aloft/internal/control/gateway"
	"aloft/internal/control/memories"
	"aloft/internal/control/model"
	"aloft/internal/control/outbound"
	"aloft/internal/control/review"
	"aloft/internal/control/store"
	"aloft/internal/control/team"
	"aloft/internal/guest/hook"
	"aloft/internal/plugin"
	"aloft/internal/policy"
	"aloft/internal/policy/permit"
	"aloft/internal/policy/sandbox"
	"aloft/internal/rule"
	"aloft/internal/server/probe"
)

// policyConfig configures which actions agents may take without asking.
type policyConfig struct {
	RunMode         string   `yaml:"run_mode"`         // allowlist, auto-review or run-everything; default the team's, person's or agent's own
	ClassifierModel string   `yaml:"classifier_model"` // id of the model that reviews calls; default fast_model, or else the agent's own
	Sandbox         bool     `yaml:"sandbox"`          // in the mode allowlist, run unlisted calls in the sandbox instead of asking
	SandboxHosts    string   `yaml:"sandbox_hosts"`    // source of the sandbox's network rules: sandbox_json, sandbox_json_and_defaults (default) or allow_all
	SandboxAlso     []string `yaml:"sandbox_also"`     // processes that run in the sandbox besides tool calls: hooks, start, terminals, mcp
	DenyAfter       string   `yaml:"deny_after"`       // how long a request waits before it is denied, such as 24h; default the team's or person's, or forever
}

func (c policyConfig) check(models map[string]bool) error {
	if c.RunMode != "" {
		if _, err := permit.ParseMode(c.RunMode); err != nil {
			return fmt.Errorf("policy.run_mode: %w", err)
		}
	}
	if c.ClassifierModel != "" && !models[c.ClassifierModel] {
		return fmt.Errorf("policy.classifier_model: no model has the id %q", c.ClassifierModel)
	}
	if mode := sandbox.NetworkMode(c.SandboxHosts); mode != "" && !slices.Contains(sandbox.NetworkModes, mode) {
		return fmt.Errorf("policy.sandbox_hosts: invalid value %q: must be one of %v", c.SandboxHosts, sandbox.NetworkModes)
	}
	for _, what := range c.SandboxAlso {
		if !slices.Contains(fleet.Sandboxable, what) {
			return fmt.Errorf("policy.sandbox_also: invalid value %q: must be one of %v", what, fleet.Sandboxable)
		}
	}
	if c.DenyAfter != "" {
		if _, err := permit.ParseDenyAfter(c.DenyAfter); err != nil {
			return fmt.Errorf("policy.deny_after: %w", err)
		}
	}
	return nil
}

// denyAfter returns the duration of the key deny_after. check has already
// validated it.
func (c policyConfig) denyAfter() time.Duration {
	d, _ := time.ParseDuration(c.DenyAfter)
	return d
}

// newReviewer returns the reviewer, which decides how to treat tool calls. fast returns
// the model for small tasks.
func newReviewer(c policyConfig, rules store.Rules, g *gateway.Gateway, m *models, fast func(context.Context) (string, error)) *review.Reviewer {
	return review.New(review.Config{
		Rules: rules, Project: projectFiles(g), Mode: permit.Mode(c.RunMode), Sandbox: c.Sandbox, Hosts: sandbox.NetworkMode(c.SandboxHosts), DenyAfter: c.denyAfter(),
		Model: func(ctx context.Context, a agent.Agent) (model.Model, model.Info, error) {
			fast, err := fast(ctx)
			if err != nil {
				return nil, model.Info{}, err
			}
			return m.find(cmp.Or(c.ClassifierModel, fast, a.Model))
		},
	})
}

// sandboxPolicy returns the sandbox policy for processes other than tool calls;
// nil means not sandboxed.
func (a *assembly) sandboxPolicy(ctx context.Context, of agent.Agent, what string) (*sandbox.Policy, error) {
	if what == fleet.SandboxGit {
		return a.reviewer.GitSandbox(ctx, of)
	}
	return a.team.Sandbox(ctx, a.reviewer, of, what)
}

// hooks returns the hooks.json of the team and of the agent's owner.
func (a *assembly) hooks(ctx context.Context, of agent.Agent) (fleet.Hooks, error) {
	h, err := a.team.Hooks(ctx, of)
	return fleet.Hooks(h), err
}

// projectFiles returns a function that reads a file of an agent's repository at a
// commit.
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
		// The mirror may have been recreated without this commit.
		if _, err := g.Check(ctx, url, commit); err != nil {
			return nil, err
		}
		return g.File(ctx, url, commit, path)
	}
}

// pluginsOf returns a function that returns the folders of the plugins of an agent's
// repository at a commit.
func pluginsOf(g *gateway.Gateway) func(ctx context.Context, a agent.Agent, commit string) ([]string, error) {
	return func(ctx context.Context, a agent.Agent, commit string) ([]string, error) {
		if commit == "" || len(a.Repos) == 0 {
			return nil, nil
		}
		var files []string
		err := g.Walk(ctx, a.Repos[0].URL, commit, func(path string, _ gateway.Blob) { files = append(files, path) }, plugin.Folders...)
		return plugin.Roots(files), err
	}
}

// foreignReach returns a function that makes the client for MCP servers that a
// repository names. The client can connect only to hosts that both the rules of this
// server and the network policy of the agent's machine allow.
func foreignReach(own policy.Network, machine func(agent.Egress) (policy.Network, error)) func(agent.Egress) (*outbound.Client, error) {
	return func(e agent.Egress) (*outbound.Client, error) {
		machines, err := machine(e)
		if err != nil || machines.Mode == "" {
			return nil, err // the machine has no network
		}
		return outbound.New(policy.Narrow(own, machines))
	}
}

// originFiles returns a function that reads project files at the commit that the agent
// started from.
func originFiles(g *gateway.Gateway) func(context.Context, agent.Agent, string) ([]byte, error) {
	read := projectFiles(g)
	return func(ctx context.Context, a agent.Agent, path string) ([]byte, error) {
		return read(ctx, a, a.Origin, path)
	}
}

// checkHooks returns the errors that a machine would report for a hooks.json.
func checkHooks(text []byte) error {
	if set := hook.Load(hook.Sources{Team: text}); len(set.Warnings) > 0 {
		return errors.New(strings.Join(set.Warnings, "; "))
	}
	return nil
}

// sandboxHolds returns a function that reports whether the sandbox can enforce
// its policy in machines of a class. gVisor machines always can; machines that
// share this host's kernel can if the kernel supports it. In the machine, the
// sandbox checks this again, and runs nothing if it cannot enforce the policy.
func sandboxHolds() func(class string) bool {
	holds := probe.Sandbox().OK
	return func(class string) bool { return holds || class == "strong" }
}

// ownRules returns a function that returns the rules of the team and of an agent's
// owner, and the memories of its repositories.
func ownRules(t *team.Policy, m *memories.Keeper) func(context.Context, agent.Agent) ([]rule.Rule, error) {
	return func(ctx context.Context, of agent.Agent) ([]rule.Rule, error) {
		rules, err := t.Rules(ctx, of)
		if err != nil {
			return nil, err
		}
		notes, err := m.Rules(ctx, of)
		return append(rules, notes...), err
	}
}
