package review

import (
	"context"
	"fmt"

	"aloft/internal/agent"
	"aloft/internal/control/store"
	"aloft/internal/policy/permit"
	"aloft/internal/policy/sandbox"
)

const sandboxFile = "sandbox.json"

// SandboxPolicy returns the policy of the sandbox around an agent's commands.
// It combines the sandbox.json of the project (from the default branch at the
// agent's creation), the user and the team. Files in the machine or on other
// branches do not count, since agents can change them. [Unreadable] recognizes
// errors that a file causes.
func (r *Reviewer) SandboxPolicy(ctx context.Context, a agent.Agent) (sandbox.Policy, error) {
	layers := sandbox.Layers{Mode: r.Hosts}
	for _, from := range []struct {
		owner, words string
		to           **sandbox.Layer
	}{{store.TeamRules, "the team's " + sandboxFile, &layers.Team}, {store.RulesOf(a.UserID), "your " + sandboxFile, &layers.Home}} {
		text, err := r.Rules.Rule(ctx, from.owner, sandboxFile)
		if err != nil {
			return sandbox.Policy{}, err
		}
		if *from.to, err = parseLayer(from.words, []byte(text)); err != nil {
			return sandbox.Policy{}, err
		}
	}
	name, data, err := r.project(ctx, a, a.RulesAt, sandboxFile)
	if err != nil {
		return sandbox.Policy{}, err
	}
	if layers.Repository, err = parseLayer(name, data); err != nil {
		return sandbox.Policy{}, err
	}
	return layers.Merge(), nil
}

// GitSandbox returns the policy of the sandbox around the git hooks of an
// agent's repositories, because commands in the sandbox may have written these
// hooks. It returns nil if the run mode puts no commands in the sandbox. The
// workspace is writable, because git commits there.
func (r *Reviewer) GitSandbox(ctx context.Context, a agent.Agent) (*sandbox.Policy, error) {
	mode, err := r.ModeOf(ctx, a)
	if err != nil || !sandboxes(mode, r.Sandbox) {
		return nil, err
	}
	p, err := r.SandboxPolicy(ctx, a)
	if Unreadable(err) && ctx.Err() == nil {
		p, err = sandbox.Default(), nil
	}
	if err != nil || p.Type == sandbox.InsecureNone {
		return nil, err
	}
	p.Type = sandbox.ReadWrite
	return &p, nil
}

// sandboxes reports whether a run mode puts commands in the sandbox.
func sandboxes(mode permit.Mode, always bool) bool {
	return mode == permit.AutoReview || mode != permit.RunEverything && always
}

// parseLayer parses a sandbox.json, or returns nil if text is empty.
func parseLayer(name string, text []byte) (*sandbox.Layer, error) {
	if len(text) == 0 {
		return nil, nil //nolint:nilnil // there is no such file
	}
	layer, err := sandbox.Parse(text)
	if err != nil {
		return nil, unreadableError{fmt.Errorf("%s: %w", name, err)}
	}
	return layer, nil
}

// sandboxed decides about a call that can run in the sandbox, if the machine
// has one.
func (r *Reviewer) sandboxed(ctx context.Context, a agent.Agent, c permit.Call, setting permit.Setting, d permit.Decision) (permit.Decision, error) {
	policy, err := r.SandboxPolicy(ctx, a)
	if Unreadable(err) && ctx.Err() == nil {
		return permit.Decision{Treatment: permit.Ask, Why: "the sandbox's policy could not be read: " + err.Error()}, nil
	}
	if err != nil {
		return d, err
	}
	if policy.Type != sandbox.InsecureNone {
		return d, nil
	}
	// A file can disable the sandbox, but not the review.
	c.Unsandboxed = true
	d = permit.Check(c, setting)
	d.Why = "sandbox.json sets insecure_none: " + d.Why
	return d, nil
}
