package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"aloft/internal/guest/sandbox"
	"aloft/internal/guest/sandbox/asked"
	"aloft/internal/guest/shell"
	sandboxpolicy "aloft/internal/policy/sandbox"
	"aloft/internal/wire/agentv1"
)

// Sandbox puts what a tool runs into a sandbox. The nil Sandbox is switched off:
// it refuses calls that ask for one, rather than run them without.
type Sandbox struct {
	Helper    string // path of the program
	Workspace string
	Home      string   // of the agent's user; without it, the environment of each command says
	Masked    []string // out of reach: where this daemon and its terminals can be talked to
	Fixed     []string // to be read only: this daemon's own files
}

// errNoSandbox is for a call that asks for what is switched off.
var errNoSandbox = errors.New("the call asks for a sandbox, and this exec-daemon has none (--sandbox-enabled): nothing was run")

// request is the sandbox that a call is to have; nil if it is to have none. The
// call says all of it: the files of this machine do not count, for the commands
// that are to be confined could have written them.
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
	policy := asked.Policy(p)
	if _, err := policy.Network.Compile(); err != nil {
		return nil, err
	}
	return &sandbox.Request{Policy: policy, Workspaces: []string{s.Workspace}, Home: s.Home, Temp: sandboxpolicy.TempFolders, Masked: s.Masked, Fixed: s.Fixed}, nil
}

// Around returns what puts a command line into the sandbox that a policy says,
// which is for what is no tool call: a hook, a terminal. It is an error to ask for
// what is switched off.
func (s *Sandbox) Around(p *agentv1.SandboxPolicy) (func(argv ...string) ([]string, error), error) {
	r, err := s.request(p)
	if err != nil {
		return nil, err
	}
	return func(argv ...string) ([]string, error) {
		if r == nil {
			return argv, nil
		}
		args, err := sandbox.Arguments(*r, argv...)
		return append([]string{s.Helper}, args...), err
	}, nil
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
