// Testcount runs go test on the packages that it is given, prints what a
// person wants to see of it, and a line that counts: passed, failed, skipped.
// If anything failed its exit status is 1, and its last lines say once more
// what failed and why, in short: a log is often kept, or shown, by its end.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// event is a line of go test -json.
type event struct {
	Action, Package, ImportPath, Test, Output, FailedBuild string
	Elapsed                                                float64
}

func main() {
	// Who started this may have had it ignore signals, as nohup does, and shells
	// for what runs in the background. What tests start is not to inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT)
	cmd := exec.Command("go", append([]string{"test", "-json", "-timeout=20m"}, os.Args[1:]...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testcount:", err)
		os.Exit(1)
	}
	start := time.Now()
	c := newCount(os.Stdout)
	readErr := c.read(out)
	waitErr := cmd.Wait()
	fmt.Fprintf(os.Stderr, "in %s\n", time.Since(start).Round(time.Second))
	c.sum()
	if readErr != nil || waitErr != nil || c.failed > 0 || c.passed == 0 {
		os.Exit(1)
	}
}

// count is what came of the tests so far.
type count struct {
	w                       io.Writer
	passed, failed, skipped int
	output                  map[string]*strings.Builder // of tests and builds that have not ended
	failures                []failure
}

// failure is a test, or a package, that failed, and what it said.
type failure struct{ name, said string }

func newCount(w io.Writer) *count { return &count{w: w, output: map[string]*strings.Builder{}} }

func (c *count) read(r io.Reader) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				fmt.Fprint(c.w, string(line)) // the compiler's words
			} else {
				c.add(e)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (c *count) add(e event) {
	key := e.Package + " " + e.Test
	switch e.Action {
	case "build-output":
		key = e.ImportPath
		fallthrough
	case "output":
		if c.output[key] == nil {
			c.output[key] = &strings.Builder{}
		}
		c.output[key].WriteString(e.Output)
		return
	case "pass", "fail", "skip":
	default:
		return
	}
	said := c.take(key)
	switch {
	case e.Test == "" && e.Action == "fail":
		// Not every failure is a test's: a package may not build, or panic.
		said = c.take(e.FailedBuild) + said
		fmt.Fprintf(c.w, "FAIL %s\n%s", e.Package, said)
		if !strings.Contains(said, "--- FAIL") && !c.hasFailed(e.Package) {
			c.failed++
			c.failures = append(c.failures, failure{e.Package, said})
		}
	case e.Test == "" && e.Action == "pass":
		fmt.Fprintf(c.w, "ok   %s %.1fs\n", e.Package, e.Elapsed)
	case e.Test == "":
	case e.Action == "pass":
		c.passed++
	case e.Action == "skip":
		c.skipped++
		fmt.Fprintf(c.w, "SKIP %s\n%s", key, said)
	default:
		c.failed++
		c.failures = append(c.failures, failure{key, said})
		fmt.Fprintf(c.w, "FAIL %s\n%s", key, said)
	}
}

// take returns what was said under a key, and forgets it.
func (c *count) take(key string) string {
	said := c.output[key]
	delete(c.output, key)
	if said == nil {
		return ""
	}
	return said.String()
}

// hasFailed reports whether a test of the package has.
func (c *count) hasFailed(pkg string) bool {
	for _, f := range c.failures {
		if strings.HasPrefix(f.name, pkg+" ") {
			return true
		}
	}
	return false
}

// sum prints the line that counts, and why what failed did.
func (c *count) sum() {
	fmt.Fprintf(c.w, "%d passed, %d failed, %d skipped\n", c.passed, c.failed, c.skipped)
	// What failed only with what is in it has no reason of its own.
	told := slices.DeleteFunc(slices.Clone(c.failures), func(f failure) bool { return len(reasons(f.said, 1)) == 0 })
	for _, f := range told {
		fmt.Fprintf(c.w, "FAIL %s\n%s\n", f.name, strings.Join(reasons(f.said, max(5, 18/len(told))), "\n"))
	}
}
