// Package guard decides in which sandbox the commands of tool calls run.
//
// A call names the policy of its sandbox. If an allow list lets a call of Shell
// run outside of the sandbox, the machine checks the call again: unreviewed
// commands in the sandbox may have changed which programs it really starts.
package guard

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"aloft/internal/guest/sandbox"
	"aloft/internal/guest/sandbox/asked"
	"aloft/internal/guest/shell"
	sandboxpolicy "aloft/internal/policy/sandbox"
	"aloft/internal/wire/agentv1"
)

// Sandbox runs a tool's commands in a sandbox. A nil Sandbox means that
// sandboxing is disabled: calls that ask for a sandbox are then refused rather
// than run without one.
type Sandbox struct {
	Helper    string // path of the program
	Workspace string
	Home      string   // of the agent's user; by default HOME of each command's environment
	Masked    []string // inaccessible paths: the sockets of this daemon and its terminals
	Fixed     []string // read-only paths: this daemon's own files
	// State is the file that remembers the workspace's trusted repositories
	// over restarts; "" keeps them in memory only.
	State string

	trusted *trusted // nil before the first use
	jobs    jobs     // background commands in the sandbox
	// gate keeps sandboxed commands from starting while a line runs git outside the
	// sandbox: the line locks it for writing, sandboxed commands for reading.
	gate sync.RWMutex
}

// errNoSandbox is returned for a call that asks for a sandbox when sandboxing
// is disabled.
var errNoSandbox = errors.New("the call asks for a sandbox, but it is disabled in this exec-daemon (see --sandbox-enabled); nothing was run")

// Request returns the sandbox that a call asks for, or nil if it asks for none.
// Only the call's policy counts: the sandbox.json files in this machine are
// ignored, because the commands to be confined could have written them.
func (s *Sandbox) Request(p *agentv1.SandboxPolicy) (*sandbox.Request, error) {
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
	known, err := s.findTrusted()
	if err != nil {
		return nil, err
	}
	return &sandbox.Request{Policy: policy, Repositories: known.WorkTrees, Workspaces: []string{s.Workspace}, Home: s.Home, Temp: sandboxpolicy.TempFolders, Masked: s.Masked, Fixed: s.Fixed}, nil
}

// Around returns a function that wraps a command line so that it runs in the
// sandbox of a policy. It is for commands outside of tool calls: hooks and
// terminals. It returns an error if sandboxing is disabled but the policy asks
// for it.
func (s *Sandbox) Around(p *agentv1.SandboxPolicy) (func(argv ...string) ([]string, error), error) {
	r, err := s.Request(p)
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

// Enter returns how a shell command enters the sandbox. The caller calls leave when the
// command has ended, or once it has passed a background command to Started.
func (s *Sandbox) Enter(r *sandbox.Request) (inside *shell.Inside, leave func(), err error) {
	key, err := json.Marshal(r)
	if err != nil {
		return nil, nil, err
	}
	s.gate.RLock()
	return &shell.Inside{Key: string(key), Wrap: func(private, state string, argv ...string) ([]string, error) {
		own := *r
		own.Masked = append(append([]string{}, r.Masked...), private)
		own.Writable = append(append([]string{}, r.Writable...), state)
		args, err := sandbox.Arguments(own, argv...)
		if err != nil {
			return nil, err
		}
		return append([]string{s.Helper}, args...), nil
	}}, s.gate.RUnlock, nil
}

// Started notes that a command in the sandbox runs in the background.
func (s *Sandbox) Started(session *shell.Session, pid int) { s.jobs.add(session, pid) }

// Explain says which of a command's errors the sandbox caused, in notes for the
// model. r is nil for a command that ran outside.
func Explain(r *sandbox.Request, res shell.Result) []string {
	switch {
	case r == nil || res.ExitCode == 0:
		return nil
	case res.ExitCode == sandbox.ExitUnenforceable && strings.Contains(res.Stderr, "sandbox:"):
		return []string{"this machine cannot enforce the sandbox, so nothing was run; ask the user to run it outside the sandbox, or to fix the machine (run sandbox probe to see what is missing)"}
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
