// Testcount runs go test on the packages in its arguments, with the flags before
// them. It prints a line per package, the output of each test that did not pass, and
// a closing line with the counts of passed, failed and skipped tests.
//
// A failed test is rerun once by itself. If it then passes, it counts as passed and
// is listed as flaky, with its first output; more than maxFlaky flaky tests fail the
// run. A skipped test fails the run when TEST_NEEDS is "all". The last lines
// summarize what failed and why, because logs are often shown by their end.
//
// We do not use gotestsum: it also counts and reruns, but it does not fail for
// skipped tests or for too many flaky ones, and it prints complete outputs at the
// end.
package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	maxFlaky  = 3  // maximum of flaky tests in a passing run
	maxReruns = 10 // with more failures, the code is broken and no test is rerun
)

func main() {
	// The parent shell may ignore signals, as nohup does. Tests must not inherit ignored
	// signals.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT)
	seed()
	start := time.Now()
	c := newCount(os.Stdout)
	flags, packages := split(os.Args[1:])
	if err := c.run(goTest(".", flags...), packages...); err != nil {
		fmt.Fprintln(os.Stderr, "testcount:", err)
		os.Exit(1)
	}
	fmt.Fprintf(os.Stderr, "in %s\n", time.Since(start).Round(time.Second))
	c.sum()
	if !c.good(os.Getenv("TEST_NEEDS") == "all") {
		os.Exit(1)
	}
}

// seed sets the seed of the property tests, unless RAPID_SEED is set, and
// prints it so that a failure can be reproduced.
func seed() {
	if os.Getenv("RAPID_SEED") == "" {
		os.Setenv("RAPID_SEED", strconv.FormatUint(rand.Uint64N(1<<31)+1, 10))
	}
	fmt.Printf("RAPID_SEED=%s repeats the property tests of this run\n", os.Getenv("RAPID_SEED"))
}

// split returns the flags for go test and the packages after them. A flag and its value
// are one argument: -timeout=60m.
func split(args []string) (flags, packages []string) {
	n := slices.IndexFunc(args, func(a string) bool { return !strings.HasPrefix(a, "-") })
	if n < 0 {
		n = len(args)
	}
	return args[:n], args[n:]
}

// goTest returns a tester that runs go test in dir with flags, for the first run and for
// reruns. The tester returns go test's own error, which is also non-nil if a test
// failed.
func goTest(dir string, flags ...string) tester {
	return func(read func(io.Reader) error, args ...string) error {
		cmd := exec.Command("go", slices.Concat([]string{"test", "-json", "-timeout=45m"}, flags, args)...)
		cmd.Dir, cmd.Stderr = dir, os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		if err := read(out); err != nil {
			return errors.Join(err, cmd.Process.Kill(), cmd.Wait())
		}
		return cmd.Wait()
	}
}
