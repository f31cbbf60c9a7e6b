// Testcount runs go test on the packages that it is given, prints what a
// person wants to see of it, and ends with one line that counts: passed,
// failed, skipped. Its exit status is 1 if anything failed.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// event is a line of go test -json.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

func main() {
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
	c := count{output: map[string]*strings.Builder{}}
	readErr := c.read(out)
	waitErr := cmd.Wait()
	fmt.Printf("%d passed, %d failed, %d skipped\n", c.passed, c.failed, c.skipped)
	fmt.Fprintf(os.Stderr, "in %s\n", time.Since(start).Round(time.Second))
	if readErr != nil || waitErr != nil || c.failed > 0 || c.passed == 0 {
		os.Exit(1)
	}
}

// count is what came of the tests so far.
type count struct {
	passed, failed, skipped int
	output                  map[string]*strings.Builder // of tests that have not ended
}

func (c *count) read(r io.Reader) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				fmt.Print(string(line)) // the compiler's words
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
	case "output", "build-output":
		if c.output[key] == nil {
			c.output[key] = &strings.Builder{}
		}
		c.output[key].WriteString(e.Output)
		return
	case "pass", "fail", "skip":
	default:
		return
	}
	said := c.output[key]
	delete(c.output, key)
	switch {
	case e.Test == "" && e.Action == "fail":
		// Not every failure is a test's: a package may not build, or panic.
		fmt.Printf("FAIL %s\n", e.Package)
		c.show(said)
		if said != nil && !strings.Contains(said.String(), "--- FAIL") {
			c.failed++
		}
	case e.Test == "" && e.Action == "pass":
		fmt.Printf("ok   %s %.1fs\n", e.Package, e.Elapsed)
	case e.Test == "":
	case e.Action == "pass":
		c.passed++
	case e.Action == "skip":
		c.skipped++
		fmt.Printf("SKIP %s\n", key)
		c.show(said)
	default:
		c.failed++
		fmt.Printf("FAIL %s\n", key)
		c.show(said)
	}
}

func (c *count) show(said *strings.Builder) {
	if said != nil {
		fmt.Print(said.String())
	}
}
