package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	sandboxpolicy "aloft/internal/policy/sandbox"
)

// Request asks for a sandbox in words that can be sent to another process.
type Request struct {
	Policy     sandboxpolicy.Policy
	Workspaces []string // absolute; the first is where relative paths of the policy start
	Home       string   // ~ of the policy's paths; $HOME if empty
	Temp       []string // folders for temporary files; the usual ones and $TMPDIR if empty
	// Masked are paths beside the usual ones that lead out of the sandbox, such as
	// the folder of a terminal's socket. Writable are open in spite of that.
	Masked   []string
	Writable []string
	Fixed    []string // may be read, and not changed, wherever they lie
	// BestEffort goes on where the host cannot enforce all of the policy.
	BestEffort bool
}

// Command is the command that runs argv in a sandbox, by the helper program at
// the path given. Its exit code is argv's own, or one of the Exit constants. Who
// starts hooks, servers or terminals sets the rest of it as ever: folder,
// environment, pipes.
func Command(helper string, r Request, argv ...string) (*exec.Cmd, error) {
	args, err := Arguments(r, argv...)
	if err != nil {
		return nil, err
	}
	return exec.Command(helper, args...), nil //nolint:noctx // whoever runs it ends it
}

// Arguments are those of the helper for a request.
func Arguments(r Request, argv ...string) ([]string, error) {
	if len(argv) == 0 {
		return nil, errors.New("sandbox: there is no command")
	}
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return append([]string{"--request", string(text), "--"}, argv...), nil
}

// ReadLayer reads a sandbox.json; nil if there is none at the path.
func ReadLayer(file string) (*sandboxpolicy.Layer, error) {
	text, err := read(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	layer, err := sandboxpolicy.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return layer, nil
}

// FindLayer reads the sandbox.json below a folder, of those that sandboxpolicy.Files
// names the first that is there.
func FindLayer(dir string) (*sandboxpolicy.Layer, error) {
	for _, name := range sandboxpolicy.Files {
		if layer, err := ReadLayer(filepath.Join(dir, name)); layer != nil || err != nil {
			return layer, err
		}
	}
	return nil, nil
}

// Rules are the request's policy in its place, and with them what is hidden.
func (r Request) Rules(getenv func(string) string) (sandboxpolicy.Rules, error) {
	place := sandboxpolicy.Scope{Home: r.Home, Temp: r.Temp}
	if len(place.Temp) == 0 {
		place.Temp = TempDirs(getenv)
	}
	if place.Home == "" && filepath.IsAbs(getenv("HOME")) {
		place.Home = filepath.Clean(getenv("HOME"))
	}
	for _, dir := range r.Workspaces {
		real, err := filepath.EvalSymlinks(dir)
		if err != nil {
			return sandboxpolicy.Rules{}, fmt.Errorf("workspace: %w", err)
		}
		if !filepath.IsAbs(real) || real == "/" {
			return sandboxpolicy.Rules{}, fmt.Errorf("workspace %q: give the absolute path of a folder that is not /", dir)
		}
		place.Workspaces = append(place.Workspaces, real)
		if r.Policy.Type == sandboxpolicy.InsecureNone {
			continue
		}
		around := near(real)
		hidden, err := hidden(real, around)
		if err != nil {
			return sandboxpolicy.Rules{}, fmt.Errorf(".cursorignore: %w", err)
		}
		place.Hidden = append(place.Hidden, hidden...)
		for _, dir := range around {
			if dir.git {
				place.Nested = append(place.Nested, dir.path)
			}
		}
	}
	rules := r.Policy.In(place)
	for _, name := range r.Writable {
		rules.Writable = append(rules.Writable, sandboxpolicy.Grant{Path: filepath.Clean(name), Rule: "the caller's own"})
	}
	for _, name := range r.Fixed {
		rules.ReadOnly = append(rules.ReadOnly, sandboxpolicy.Grant{Path: filepath.Clean(name), Rule: "the caller's own"})
	}
	return rules, nil
}

// Spec is what the request asks for on this host.
func (r Request) Spec(getenv func(string) string) (Spec, error) {
	rules, err := r.Rules(getenv)
	if err != nil {
		return Spec{}, err
	}
	return Spec{Rules: rules, Masked: append(Sockets(), r.Masked...), Kept: keptFiles, BestEffort: r.BestEffort}, nil
}
