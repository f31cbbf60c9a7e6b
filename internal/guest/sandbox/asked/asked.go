// Package asked converts the policy that the control plane sends with a tool
// call, a hook, a terminal or an environment's start command.
package asked

import (
	"aloft/internal/policy"
	sandboxpolicy "aloft/internal/policy/sandbox"
	"aloft/internal/wire/agentv1"
)

// Policy converts a policy from its message; nil means the built-in rules. The
// caller must handle TYPE_INSECURE_NONE: Policy converts it as if a sandbox
// were requested.
func Policy(p *agentv1.SandboxPolicy) sandboxpolicy.Policy {
	if p == nil {
		return sandboxpolicy.Layers{Mode: sandboxpolicy.WithDefaults}.Merge()
	}
	c := sandboxpolicy.Policy{
		Type:      sandboxpolicy.ReadWrite,
		ReadWrite: p.GetAdditionalReadwritePaths(), ReadOnly: p.GetAdditionalReadonlyPaths(), Read: p.GetAdditionalReadPaths(),
		ReadBoundary: sandboxpolicy.System, DisableTmpWrite: p.GetDisableTmpWrite(), SharedBuildCache: p.GetEnableSharedBuildCache(),
		Network: policy.Network{Mode: policy.List, Allow: p.GetNetworkPolicy().GetAllow(), Deny: p.GetNetworkPolicy().GetDeny()},
	}
	if p.GetType() == agentv1.SandboxPolicy_TYPE_WORKSPACE_READONLY {
		c.Type = sandboxpolicy.ReadOnly
	}
	if p.GetReadBoundary() == agentv1.SandboxPolicy_READ_BOUNDARY_WORKSPACE {
		c.ReadBoundary = sandboxpolicy.Workspace
	}
	switch {
	case !p.GetNetworkAccess():
		c.Network.Mode = policy.None
	case p.GetNetworkPolicy().GetDefaultAllow():
		c.Network.Mode = policy.AllowAll
		c.UnrestrictedHosts = p.GetUnrestrictedHosts() && len(c.Network.Deny) == 0
	}
	return c
}
