// Command sandbox runs one command with fewer rights: see internal/guest/sandbox.
// Its own failures exit with 125; a command that cannot be executed with 126,
// one that is not found with 127; else the exit is the command's own.
package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"aloft/internal/guest/sandbox"
)

const usage = `usage: sandbox [--rw PATH]... [--ro PATH]... [--no-network] [--best-effort] -- COMMAND [ARGUMENT]...

  --rw PATH      may be read, written and executed, with all below it
  --ro PATH      may be read and executed, with all below it
                 with either, every other path is out of reach
  --no-network   no socket but unix and netlink ones
  --best-effort  go on where the kernel cannot enforce all of it, and say so
  --plan         print what would be enforced, and do nothing
`

func main() {
	code, err := run(os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "sandbox:", err)
	}
	os.Exit(code)
}

const (
	exitFailed   = 125
	exitCannot   = 126
	exitNotFound = 127
)

// run does not return when all goes well.
func run(args, environ []string, stdout, stderr io.Writer) (int, error) {
	policy, plan, command, err := parse(args)
	if errors.Is(err, errHelp) {
		_, err = io.WriteString(stdout, usage)
		return 0, err
	}
	if err != nil {
		return exitFailed, fmt.Errorf("%w\n%s", err, usage)
	}
	rules, err := sandbox.Plan(policy, sandbox.ABI())
	if err != nil {
		return exitFailed, fmt.Errorf("%w (--best-effort goes on without)", err)
	}
	if plan {
		_, err := io.WriteString(stdout, rules.String())
		return 0, err
	}
	for _, m := range rules.Missing {
		fmt.Fprintln(stderr, "sandbox: not enforced:", m)
	}
	program, err := exec.LookPath(command[0])
	if err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return exitCannot, err
		}
		return exitNotFound, err
	}
	// What follows is the thread's own, up to the exec, which leaves it alone.
	runtime.LockOSThread()
	if err := sandbox.Apply(rules); err != nil {
		return exitFailed, err
	}
	err = syscall.Exec(program, command, environ)
	if errors.Is(err, fs.ErrNotExist) {
		return exitNotFound, fmt.Errorf("%s: %w", program, err)
	}
	return exitCannot, fmt.Errorf("%s: %w", program, err)
}

var errHelp = errors.New("help")

// parse is by hand: package flag would take a command's own flags where -- is
// forgotten, and sandbox would confine the wrong thing.
func parse(args []string) (p sandbox.Policy, plan bool, command []string, err error) {
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		name, value, joined := strings.Cut(arg, "=")
		switch name {
		case "--":
			if len(args) == 0 && !plan {
				return p, plan, nil, errors.New("there is no command")
			}
			return p, plan, args, nil
		case "--rw", "--ro":
			if !joined {
				if len(args) == 0 {
					return p, plan, nil, fmt.Errorf("%s wants a path", name)
				}
				value, args = args[0], args[1:]
			}
			if value, err = filepath.Abs(value); err != nil {
				return p, plan, nil, err
			}
			if name == "--rw" {
				p.ReadWrite = append(p.ReadWrite, value)
			} else {
				p.ReadOnly = append(p.ReadOnly, value)
			}
		case "--no-network":
			p.NoNetwork = true
		case "--best-effort":
			p.BestEffort = true
		case "--plan":
			plan = true
		case "--help", "-h":
			return p, plan, nil, errHelp
		default:
			return p, plan, nil, fmt.Errorf("%q is not known; the command comes after --", arg)
		}
	}
	if plan {
		return p, plan, nil, nil
	}
	return p, plan, nil, errors.New("there is no command; it comes after --")
}
