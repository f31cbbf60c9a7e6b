// Package front is the sandbox's command line. It is used by the program through which
// exec-daemon runs commands, and by `aloft sandbox`, which people use directly.
package front

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"aloft/internal/guest/sandbox"
	"aloft/internal/guest/sandbox/proxy"
	sandboxpolicy "aloft/internal/policy/sandbox"
)

// KeepWord is the first argument of the keeper process, which cleans up.
const KeepWord = "keep"

// Process holds the parts of the current process that the command line uses.
type Process struct {
	Name           string   // name of the program, for messages
	Keeper         []string // command that runs this program with KeepWord
	Environ        []string
	Getenv         func(string) string
	Stdout, Stderr io.Writer
}

const usage = `usage: %[1]s [run] [FLAG]... -- COMMAND [ARGUMENT]...
       %[1]s explain [FLAG]... [r:PATH | w:PATH | HOST]...
       %[1]s probe

run        run a command in a sandbox, and exit with its exit code
explain    show what would be enforced, or whether a path or host is allowed
probe      show what this host can enforce

  --policy FILE         policy file; by default the sandbox.json of the workspace and
                        of the home folder (in .aloft/, else in .cursor/)
  --workspace DIR       folder that the command may change, unless the policy
                        forbids it; repeatable; the working directory by default
  --network-mode MODE   sandbox_json (the default: the file alone decides),
                        sandbox_json_and_defaults, allow_all
  --best-effort         if the host cannot enforce everything, warn and continue

Own exit codes: 123 this host cannot enforce the policy, 125 another
failure, 126 the command cannot be run, 127 command not found.

examples:
  %[1]s -- make test
  %[1]s --policy sandbox.json -- npm install
  %[1]s explain --policy sandbox.json w:.git/config packages.npmjs.org
`

type arguments struct {
	policy     string
	workspaces []string
	mode       sandboxpolicy.NetworkMode
	request    string
	bestEffort bool
	rest       []string
	dashes     bool // a -- was given
}

var errHelp = errors.New("help")

// Main runs the command line and returns the exit code. If it replaces this
// process by the command, it does not return.
func Main(args []string, p Process) (int, error) {
	verb := "run"
	if len(args) > 0 {
		switch args[0] {
		case "run", "explain", "probe", KeepWord:
			verb, args = args[0], args[1:]
		}
	}
	if verb == KeepWord {
		return code(sandbox.Keep(args))
	}
	if verb == "probe" {
		return code(probe(p.Stdout))
	}
	a, err := parse(args)
	if errors.Is(err, errHelp) {
		_, err = fmt.Fprintf(p.Stdout, usage, p.Name)
		return code(err)
	}
	if err != nil {
		return sandbox.ExitFailed, fmt.Errorf("%w; see %s --help", err, p.Name)
	}
	r, err := a.build(p)
	if err != nil {
		return sandbox.ExitFailed, err
	}
	if verb == "explain" {
		return code(explain(r, a.rest, p))
	}
	if !a.dashes || len(a.rest) == 0 {
		return sandbox.ExitFailed, fmt.Errorf("no command given; put it after --; see %s --help", p.Name)
	}
	return run(r, a.rest, p)
}

func code(err error) (int, error) {
	if err != nil {
		return sandbox.ExitFailed, err
	}
	return 0, nil
}

// parse parses by hand: without --, package flag would parse the command's own flags,
// and the sandbox would use the wrong policy.
func parse(args []string) (a arguments, err error) {
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		name, value, joined := strings.Cut(arg, "=")
		switch name {
		case "--":
			a.rest, a.dashes = append(a.rest, args...), true
			return a, nil
		case "--help", "-h":
			return a, errHelp
		case "--best-effort":
			a.bestEffort = true
			continue
		case "--policy", "--workspace", "--network-mode", "--request":
			if !joined {
				if len(args) == 0 {
					return a, fmt.Errorf("%s needs a value", name)
				}
				value, args = args[0], args[1:]
			}
		default:
			if strings.HasPrefix(arg, "-") {
				return a, fmt.Errorf("unknown argument %q; put the command after --", arg)
			}
			a.rest = append(a.rest, arg)
			continue
		}
		switch name {
		case "--policy":
			a.policy = value
		case "--workspace":
			dir, err := filepath.Abs(value)
			if err != nil {
				return a, err
			}
			a.workspaces = append(a.workspaces, dir)
		case "--network-mode":
			a.mode = sandboxpolicy.NetworkMode(value)
			if !slices.Contains(sandboxpolicy.NetworkModes, a.mode) {
				return a, fmt.Errorf("--network-mode %s: must be sandbox_json, sandbox_json_and_defaults or allow_all", value)
			}
		case "--request":
			a.request = value
		}
	}
	return a, nil
}

// build makes the sandbox request from the flags and files.
func (a arguments) build(p Process) (sandbox.Request, error) {
	var r sandbox.Request
	if a.request != "" {
		in := json.NewDecoder(strings.NewReader(a.request))
		in.DisallowUnknownFields()
		if err := in.Decode(&r); err != nil {
			return r, fmt.Errorf("--request: %w", err)
		}
		return r, nil
	}
	r.Workspaces, r.BestEffort = a.workspaces, a.bestEffort
	if len(r.Workspaces) == 0 {
		dir, err := os.Getwd()
		if err != nil {
			return r, err
		}
		r.Workspaces = []string{dir}
	}
	layers := sandboxpolicy.Layers{Mode: cmp.Or(a.mode, sandboxpolicy.FileOnly)}
	var err error
	if a.policy != "" {
		if layers.Repository, err = sandbox.ReadLayer(a.policy); err == nil && layers.Repository == nil {
			err = fmt.Errorf("policy %s: no such file", a.policy)
		}
	} else {
		layers.Repository, err = sandbox.FindLayer(r.Workspaces[0])
		if home := p.Getenv("HOME"); err == nil && home != "" {
			layers.Home, err = sandbox.FindLayer(home)
		}
	}
	if err != nil {
		return r, err
	}
	for _, l := range []*sandboxpolicy.Layer{layers.Home, layers.Repository} {
		if l != nil && len(l.Unknown) > 0 {
			fmt.Fprintf(p.Stderr, "sandbox: unknown keys in sandbox.json: %s\n", strings.Join(l.Unknown, ", "))
		}
	}
	r.Policy = layers.Merge()
	return r, nil
}

func run(r sandbox.Request, argv []string, p Process) (int, error) {
	matcher, err := r.Policy.Network.Compile()
	if err != nil {
		return sandbox.ExitFailed, err
	}
	dir, err := os.Getwd()
	if err != nil {
		return sandbox.ExitFailed, fmt.Errorf("working directory: %w", err)
	}
	out := &proxy.Proxy{Policy: matcher}
	exit, err := sandbox.Run(sandbox.Job{
		Spec: func() (sandbox.Spec, error) { return r.Spec(p.Getenv) }, Policy: r.Policy, Dir: dir, Argv: argv, Env: p.Environ, Proxy: server{out}, Keeper: p.Keeper, Words: p.Stderr,
	})
	for _, d := range out.Denials() {
		fmt.Fprintf(p.Stderr, "sandbox: blocked %s: %s. To allow it, add it to networkPolicy.allow of sandbox.json, or ask the user\n", printable(d.Host), d.Rule)
	}
	return exit, err
}

// server adapts the proxy to package sandbox.
type server struct{ *proxy.Proxy }

func (s server) Serve(l net.Listener) error { return s.Proxy.Serve(l) }

// printable returns a name that came from inside the sandbox, without control
// characters that could affect a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
}
