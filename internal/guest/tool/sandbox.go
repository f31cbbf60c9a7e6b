package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"aloft/internal/guest/sandbox"
	"aloft/internal/guest/shell"
	"aloft/internal/policy/cage"
	"aloft/internal/wire/agentv1"
)

// Sandbox puts what a tool runs into a sandbox. The nil Sandbox is switched off:
// it refuses calls that ask for one, rather than run them without.
type Sandbox struct {
	Helper    string // path of the program
	Workspace string
	Masked    []string // out of reach: where this daemon and its terminals can be talked to
	Fixed     []string // to be read only: this daemon's own files
}

// errNoSandbox is for a call that asks for what is switched off.
var errNoSandbox = errors.New("the call asks for a sandbox, and this exec-daemon has none (--sandbox-enabled): nothing was run")

// request is the sandbox that a call is to have; nil if it is to have none. It
// is made anew for each, as sandbox.json may have changed.
func (s *Sandbox) request(p *agentv1.SandboxPolicy) (*sandbox.Request, error) {
	outside := p.GetType() == agentv1.SandboxPolicy_TYPE_INSECURE_NONE
	if s == nil {
		if p != nil && !outside {
			return nil, errNoSandbox
		}
		return nil, nil
	}
	if outside {
		return nil, nil
	}
	var layers cage.Layers
	var err error
	if home, homeErr := os.UserHomeDir(); homeErr == nil {
		if layers.Home, err = sandbox.FindLayer(home); err != nil {
			return nil, err
		}
	}
	if layers.Repository, err = sandbox.FindLayer(s.Workspace); err != nil {
		return nil, err
	}
	layers.Team = layerOf(p)
	if layers.Team != nil && layers.Team.Type == "" {
		layers.Team.Type = cage.ReadWrite
	}
	// A file of the repository does not take the sandbox away: only the call can.
	for _, l := range []*cage.Layer{layers.Home, layers.Repository} {
		if l != nil && l.Type == cage.InsecureNone {
			l.Type = ""
		}
	}
	switch {
	case p != nil && !p.GetNetworkAccess():
		layers.Mode = cage.FileOnly
	case p.GetNetworkPolicy() != nil:
		layers.Mode = cage.FileOnly
	}
	policy := layers.Merge()
	if p != nil && !p.GetNetworkAccess() {
		policy.Network.Mode, policy.UnrestrictedHosts = "none", false
	}
	if _, err := policy.Network.Compile(); err != nil {
		return nil, err
	}
	return &sandbox.Request{Policy: policy, Workspaces: []string{s.Workspace}, Masked: s.Masked, Fixed: s.Fixed}, nil
}

// layerOf is a call's policy as one more layer, which narrows.
func layerOf(p *agentv1.SandboxPolicy) *cage.Layer {
	if p == nil {
		return nil
	}
	l := &cage.Layer{ReadWritePaths: p.GetAdditionalReadwritePaths(), ReadOnlyPaths: p.GetAdditionalReadonlyPaths()}
	switch p.GetType() {
	case agentv1.SandboxPolicy_TYPE_WORKSPACE_READONLY:
		l.Type = cage.ReadOnly
	case agentv1.SandboxPolicy_TYPE_WORKSPACE_READWRITE, agentv1.SandboxPolicy_TYPE_UNSPECIFIED:
		l.Type = cage.ReadWrite
	}
	if p.GetDisableTmpWrite() {
		l.DisableTmpWrite = new(true)
	}
	if p.GetEnableSharedBuildCache() {
		l.EnableSharedBuildCache = new(true)
	}
	if n := p.GetNetworkPolicy(); n != nil {
		l.Network = &cage.NetworkRules{Allow: n.GetAllow(), Deny: n.GetDeny(), Default: "deny"}
		if n.GetDefaultAllow() {
			l.Network.Default = "allow"
		}
	}
	return l
}

// inside is how a command of the shell gets into the sandbox.
func (s *Sandbox) inside(r *sandbox.Request) (*shell.Inside, error) {
	key, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return &shell.Inside{Key: string(key), Wrap: func(private, state string, argv ...string) ([]string, error) {
		own := *r
		own.Masked = append(append([]string{}, r.Masked...), private)
		own.Writable = append(append([]string{}, r.Writable...), state)
		args, err := sandbox.Arguments(own, argv...)
		if err != nil {
			return nil, err
		}
		return append([]string{s.Helper}, args...), nil
	}}, nil
}

// explain says which of a command's complaints are the sandbox's doing.
func explainSandbox(r *sandbox.Request, res shell.Result) []string {
	switch {
	case r == nil || res.ExitCode == 0:
		return nil
	case res.ExitCode == sandbox.ExitUnenforceable && strings.Contains(res.Stderr, "sandbox:"):
		return []string{"this machine cannot enforce the sandbox, so nothing was run; ask the user to run it outside of the sandbox, or to mend the machine (sandbox probe says how)"}
	}
	rules, err := r.Rules(os.Getenv) //nolint:forbidigo // the commands run in this process's environment
	if err != nil {
		return nil
	}
	notes := rules.Explain(res.Dir, res.Stderr+"\n"+res.Stdout)
	for i, n := range notes {
		notes[i] = fmt.Sprintf("sandbox: %s", n)
	}
	return notes
}
