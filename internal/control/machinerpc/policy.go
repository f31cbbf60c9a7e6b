package machinerpc

import (
	"aloft/internal/policy"
	"aloft/internal/policy/sandbox"
	"aloft/internal/wire/agentv1"
)

var typesOf = map[sandbox.Type]agentv1.SandboxPolicy_Type{
	sandbox.InsecureNone: agentv1.SandboxPolicy_TYPE_INSECURE_NONE,
	sandbox.ReadWrite:    agentv1.SandboxPolicy_TYPE_WORKSPACE_READWRITE,
	sandbox.ReadOnly:     agentv1.SandboxPolicy_TYPE_WORKSPACE_READONLY,
}

// EncodePolicy encodes a sandbox policy for a machine. The message is complete:
// the machine adds no policy of its own.
func EncodePolicy(p sandbox.Policy) *agentv1.SandboxPolicy {
	m := &agentv1.SandboxPolicy{
		Type:                     typesOf[p.Type],
		NetworkAccess:            p.Network.Mode != policy.None,
		AdditionalReadwritePaths: p.ReadWrite, AdditionalReadonlyPaths: p.ReadOnly, AdditionalReadPaths: p.Read,
		DisableTmpWrite: p.DisableTmpWrite, EnableSharedBuildCache: p.SharedBuildCache,
		NetworkPolicy:     &agentv1.NetworkPolicy{DefaultAllow: p.Network.Mode == policy.AllowAll, Allow: p.Network.Allow, Deny: p.Network.Deny},
		UnrestrictedHosts: p.UnrestrictedHosts,
		ReadBoundary:      agentv1.SandboxPolicy_READ_BOUNDARY_SYSTEM,
	}
	if p.ReadBoundary == sandbox.Workspace {
		m.ReadBoundary = agentv1.SandboxPolicy_READ_BOUNDARY_WORKSPACE
	}
	return m
}
