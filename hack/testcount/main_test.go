package main

import (
	"fmt"
	"strings"
	"testing"
)

// A test that fails is told of once more after the count, in few lines, and
// neither its parent, which failed with it, nor what passed.
func TestTheReasonComesLast(t *testing.T) {
	long := strings.Repeat("x", 1000)
	var in strings.Builder
	say := func(test string, lines ...string) {
		for _, line := range lines {
			fmt.Fprintf(&in, `{"Action":"output","Package":"p","Test":%q,"Output":%q}`+"\n", test, line+"\n")
		}
	}
	end := func(action, pkg, test string) {
		fmt.Fprintf(&in, `{"Action":%q,"Package":%q,"Test":%q}`+"\n", action, pkg, test)
	}
	say("TestGood", "=== RUN   TestGood", "    a_test.go:1: chatter")
	end("pass", "p", "TestGood")
	say("TestBad/sub", "=== RUN   TestBad/sub", "    a_test.go:2: the screen is")
	for i := range 30 {
		say("TestBad/sub", fmt.Sprintf("        line %d", i))
	}
	say("TestBad/sub", "    a_test.go:3: "+long+" end", "--- FAIL: TestBad/sub (0.00s)")
	end("fail", "p", "TestBad/sub")
	say("TestBad", "=== RUN   TestBad", "--- FAIL: TestBad (0.00s)")
	end("fail", "p", "TestBad")
	say("TestPanics", "--- FAIL: TestPanics (0.00s)", "panic: assignment to entry in nil map", "", "goroutine 5 [running]:", "testing.tRunner(…)",
		"\t/usr/local/go/src/testing/testing.go:2036 +0xea", "aloft/internal/a.TestPanics()", "\t/src/internal/a/a_test.go:4 +0x34")
	end("fail", "p", "TestPanics")
	say("", "FAIL\tp\t0.006s")
	end("fail", "p", "")
	in.WriteString(`{"ImportPath":"q [q.test]","Action":"build-output","Output":"# q\n"}
{"ImportPath":"q [q.test]","Action":"build-output","Output":"q/a.go:1:2: undefined: y\n"}
{"Action":"fail","Package":"q","FailedBuild":"q [q.test]"}
`)
	var out strings.Builder
	c := newCount(&out)
	if err := c.read(strings.NewReader(in.String())); err != nil {
		t.Fatal(err)
	}
	c.sum()
	if c.passed != 1 || c.failed != 4 {
		t.Errorf("%d passed, %d failed", c.passed, c.failed)
	}
	_, last, _ := strings.Cut(out.String(), "1 passed, 4 failed, 0 skipped\n")
	want := []string{
		"FAIL p TestBad/sub", "    a_test.go:2: the screen is", "        line 29", "    a_test.go:3: xx", "x end",
		"FAIL p TestPanics", "panic: assignment", "/src/internal/a/a_test.go:4", "FAIL q", "q/a.go:1:2: undefined: y",
	}
	rest := last
	for _, w := range want {
		var found bool
		if _, rest, found = strings.Cut(rest, w); !found {
			t.Errorf("%q is missing, or out of its place", w)
		}
	}
	if n := strings.Count(last, "\n"); n > 20 || strings.Contains(last, "chatter") || strings.Contains(last, "FAIL p TestBad\n") || strings.Contains(last, long) {
		t.Errorf("%d lines", n)
	}
	if t.Failed() {
		t.Log(last)
	}
}
