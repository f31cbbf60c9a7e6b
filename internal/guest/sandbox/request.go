package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	sandboxpolicy "aloft/internal/policy/sandbox"
)

// Request describes a sandbox in a form that can be passed to another process.
type Request struct {
	Policy     sandboxpolicy.Policy
	Workspaces []string // absolute; relative paths in the policy are relative to the first
	Home       string   // ~ in the policy's paths; $HOME by default
	Temp       []string // folders for temporary files; by default the usual ones and $TMPDIR
	// Masked are additional paths to hide because they lead out of the sandbox, such as the
	// folder of a terminal's socket. Writable are exceptions that stay writable.
	Masked   []string
	Writable []string
	Fixed    []string // read-only, wherever they are
	// Repositories are additional folders in the workspaces whose git files are protected.
	// Repositories near the workspaces' roots are found without being listed.
	Repositories []string
	// BestEffort continues even if the host cannot enforce all of the policy.
	BestEffort bool
}

// Arguments returns the helper's arguments for a request.
func Arguments(r Request, argv ...string) ([]string, error) {
	if len(argv) == 0 {
		return nil, errors.New("sandbox: the command is empty")
	}
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return append([]string{"--request", string(text), "--"}, argv...), nil
}

// ReadLayer reads a sandbox.json; it returns nil if the file does not exist.
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

// FindLayer reads the first file of [sandboxpolicy.Files] that exists in dir. It
// returns nil if none exists.
func FindLayer(dir string) (*sandboxpolicy.Layer, error) {
	for _, name := range sandboxpolicy.Files {
		if layer, err := ReadLayer(filepath.Join(dir, name)); layer != nil || err != nil {
			return layer, err
		}
	}
	return nil, nil
}

// Rules returns the rules of the request's policy for its workspaces, including
// hidden files.
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
		around := nearbyFiles(real)
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
	for _, dir := range r.Repositories {
		if !slices.Contains(place.Nested, dir) {
			place.Nested = append(place.Nested, dir)
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

// Spec returns the sandbox that the request describes on this host.
func (r Request) Spec(getenv func(string) string) (Spec, error) {
	rules, err := r.Rules(getenv)
	if err != nil {
		return Spec{}, err
	}
	return Spec{Rules: rules, Masked: append(Sockets(), r.Masked...), Kept: keptFiles, BestEffort: r.BestEffort}, nil
}
