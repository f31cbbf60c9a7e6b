package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// event is a line of go test -json.
type event struct {
	Action, Package, ImportPath, Test, Output, FailedBuild string
	Elapsed                                                float64
}

// count holds the results of a run: the last result of each test, and the
// output of unfinished tests and builds.
type count struct {
	w        io.Writer
	results  map[test]string // pass, fail or skip
	output   map[string]*strings.Builder
	failures []failure // in the order in which they occurred
	flaky    []failure // failed first but passed in the rerun
}

// test identifies a test. An empty name means the package itself: its build, or
// a crash.
type test struct{ pkg, name string }

func (t test) String() string { return strings.TrimSpace(t.pkg + " " + t.name) }

// failure is a failed test with its output.
type failure struct {
	test
	output string
}

// tester runs go test and passes its JSON output to read; see goTest.
type tester func(read func(io.Reader) error, args ...string) error

func newCount(w io.Writer) *count {
	return &count{w: w, results: map[test]string{}, output: map[string]*strings.Builder{}}
}

// run runs the packages, and then reruns each failure alone. It returns an
// error if go test failed without reporting a failure.
func (c *count) run(goTest tester, packages ...string) error {
	err := goTest(c.read, packages...)
	if err != nil && len(c.failures) == 0 {
		return err
	}
	again := c.reruns()
	if len(again) == 0 || len(again) > maxReruns {
		return nil
	}
	first := c.failures
	for _, t := range again {
		c.forget(t)
		args := []string{"-count=1", t.pkg}
		if t.name != "" {
			args = append(args, "-run", "^"+t.name+"$")
		}
		fmt.Fprintf(c.w, "again %s\n", t)
		if err := goTest(c.read, args...); err == nil {
			said := slices.DeleteFunc(slices.Clone(first), func(f failure) bool { return !t.holds(f.test) })
			c.flaky = append(c.flaky, said...)
		}
	}
	return nil
}

// reruns returns the tests to rerun for the failures: top-level tests, or the whole
// package if a crash prevented other tests from running.
func (c *count) reruns() []test {
	var again []test
	for _, f := range c.failures {
		t := test{f.pkg, f.top()}
		if c.broke(f.pkg) {
			t.name = ""
		}
		if !slices.Contains(again, t) {
			again = append(again, t)
		}
	}
	return again
}

// broke reports whether the package ended before all its tests had run.
func (c *count) broke(pkg string) bool {
	return slices.ContainsFunc(c.failures, func(f failure) bool {
		return f.pkg == pkg && (f.name == "" || slices.ContainsFunc(strings.Split(f.output, "\n"), func(l string) bool {
			return strings.HasPrefix(l, "panic: ") || strings.HasPrefix(l, "fatal error: ")
		}))
	})
}

// top returns the name of the top-level test.
func (t test) top() string {
	top, _, _ := strings.Cut(t.name, "/")
	return top
}

// holds reports whether o is t or a subtest of t.
func (t test) holds(o test) bool {
	return t.pkg == o.pkg && (t.name == "" || t.name == o.top())
}

// forget drops the results of t, which is about to run again.
func (c *count) forget(t test) {
	for o := range c.results {
		if t.holds(o) {
			delete(c.results, o)
		}
	}
	c.failures = slices.DeleteFunc(slices.Clone(c.failures), func(f failure) bool { return t.holds(f.test) })
}

// read reads the output of go test -json.
func (c *count) read(r io.Reader) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				fmt.Fprint(c.w, string(line)) // output of the compiler
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
	t := test{e.Package, e.Test}
	key := t.String()
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
	output := c.take(key)
	switch {
	case e.Test == "" && e.Action == "fail":
		// A failure may also belong to a package, which may fail to build, or panic.
		output = c.take(e.FailedBuild) + c.unfinished(e.Package) + output
		fmt.Fprintf(c.w, "FAIL %s\n%s", t, output)
		if !slices.ContainsFunc(c.failures, func(f failure) bool { return f.pkg == e.Package }) {
			c.fail(t, output)
		}
	case e.Test == "" && e.Action == "pass":
		fmt.Fprintf(c.w, "ok   %s %.1fs\n", e.Package, e.Elapsed)
	case e.Test == "":
	case e.Action == "pass":
		c.results[t] = e.Action
	case e.Action == "skip":
		c.results[t] = e.Action
		fmt.Fprintf(c.w, "SKIP %s\n%s", t, output)
	default:
		c.fail(t, output)
		fmt.Fprintf(c.w, "FAIL %s\n%s", t, output)
	}
}

func (c *count) fail(t test, output string) {
	c.results[t] = "fail"
	c.failures = append(c.failures, failure{t, output})
}

// take returns and removes the output stored under a key.
func (c *count) take(key string) string {
	said := c.output[key]
	delete(c.output, key)
	if said == nil {
		return ""
	}
	return said.String()
}

// unfinished returns the output of the package's tests that have no result: one of them
// crashed the process or hung.
func (c *count) unfinished(pkg string) string {
	var output strings.Builder
	for _, key := range slices.Sorted(maps.Keys(c.output)) {
		if strings.HasPrefix(key, pkg+" ") {
			output.WriteString(c.take(key))
		}
	}
	return output.String()
}

// tally returns the number of tests with a result.
func (c *count) tally(result string) (n int) {
	for _, r := range c.results {
		if r == result {
			n++
		}
	}
	return n
}

// good reports whether the run passes. needsAll means that no test may be
// skipped.
func (c *count) good(needsAll bool) bool {
	return c.tally("pass") > 0 && c.tally("fail") == 0 && len(c.flakyTests()) <= maxFlaky && (!needsAll || c.tally("skip") == 0)
}

// flakyTests returns the top-level tests among the flaky failures.
func (c *count) flakyTests() []test {
	var tests []test
	for _, f := range c.flaky {
		if t := (test{f.pkg, f.top()}); !slices.Contains(tests, t) {
			tests = append(tests, t)
		}
	}
	return tests
}

// sum prints the flaky tests, the counts, and the reason of each failure.
func (c *count) sum() {
	for _, f := range c.flaky {
		fmt.Fprintf(c.w, "FLAKY %s: failed, then passed by itself\n%s", f.test, f.output)
	}
	if n := len(c.flakyTests()); n > maxFlaky {
		fmt.Fprintf(c.w, "%d flaky tests: more than %d fail the run\n", n, maxFlaky)
	}
	fmt.Fprintf(c.w, "%d passed, %d failed, %d skipped\n", c.tally("pass"), c.tally("fail"), c.tally("skip"))
	// Do not print a parent test that failed only because its subtests failed.
	told := slices.DeleteFunc(slices.Clone(c.failures), func(f failure) bool { return len(reasons(f.output, 1)) == 0 })
	for _, f := range told {
		fmt.Fprintf(c.w, "FAIL %s\n%s\n", f.test, strings.Join(reasons(f.output, max(5, 18/len(told))), "\n"))
	}
}
