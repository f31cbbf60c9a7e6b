// Package ripgrep searches and lists files like the program rg, for machines
// that do not have it. It accepts the options of rg that the tools of
// exec-daemon use, and prints the same output. exec-daemon runs it as a
// separate process, so that it can confine, limit and kill it like rg.
//
// Patterns are those of the package regexp, with the Unicode classes \d, \w and
// \s of rg. Unlike in rg, \b supports ASCII only, and a byte that is not valid
// UTF-8 counts as the character U+FFFD.
package ripgrep

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
)

// Argument is the first command-line argument of a process that should call
// [Main]. It looks like a flag, so that a test's program that does not call
// Main ends with an error instead of running its tests again.
const Argument = "--ripgrep"

// Command returns a command line for searching. It starts rg, by its path or name, if rg
// is installed, or else this program with [Argument].
func Command(rg string) []string {
	if rg == "" {
		rg = "rg"
	}
	if _, err := exec.LookPath(rg); err == nil {
		return []string{rg}
	}
	self, err := os.Executable()
	if err != nil {
		self = "/proc/self/exe"
	}
	return []string{self, Argument}
}

// Exit statuses of rg.
const (
	exitFound = iota
	exitNothing
	exitWrong
)

// softMemory is the soft memory limit in bytes. A machine's memory is meant for
// the agent's commands.
const softMemory = 256 << 20

// Main runs a command line of rg, without the program's name, in the working
// directory, and returns the exit status.
func Main(args []string, stdout, stderr io.Writer) int {
	debug.SetMemoryLimit(softMemory)
	out := bufio.NewWriterSize(stdout, 64<<10)
	found, err := run(args, out)
	if flushed := out.Flush(); err == nil && flushed != nil {
		return exitWrong // nobody reads any more
	}
	var usage usageError
	switch {
	case errors.As(err, &usage):
		fmt.Fprintln(stderr, usage)
		return exitWrong
	case err != nil: // as with --no-messages: the readable files were searched
		return exitWrong
	case !found:
		return exitNothing
	}
	return exitFound
}

// usageError is an error in the arguments. Its text is for the model.
type usageError struct{ error }

func wrong(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func run(args []string, out *bufio.Writer) (found bool, err error) {
	o, err := parse(args)
	if err != nil {
		return false, err
	}
	w, err := newWalker(o)
	if err != nil {
		return false, err
	}
	if o.files {
		return list(w, o, out)
	}
	m, err := newMatcher(o)
	if err != nil {
		return false, err
	}
	return searchAll(w, m, o, out)
}

// list prints the names of the files.
func list(w *walker, o options, out *bufio.Writer) (found bool, err error) {
	return found, w.walk(func(f file) error {
		found = true
		return writeName(out, f.name, o)
	})
}

func writeName(out *bufio.Writer, name string, o options) error {
	if _, err := out.WriteString(name); err != nil {
		return err
	}
	end := byte('\n')
	if o.null {
		end = 0
	}
	return out.WriteByte(end)
}
