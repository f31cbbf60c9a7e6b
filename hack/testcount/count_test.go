package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTheReasonComesLast checks that after the counts each failed test has a
// short summary, without its parent and without passed tests.
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
	if c.tally("pass") != 1 || c.tally("fail") != 4 {
		t.Errorf("%d passed, %d failed", c.tally("pass"), c.tally("fail"))
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

// flakes is the source of tests that fail or panic only in their first process.
const flakes = `package p

import (
	"os"
	"testing"
)

func first(t *testing.T, name string) bool {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL, 0o600)
	f.Close()
	return err == nil
}

func TestFlaky(t *testing.T) {
	t.Run("sub", func(t *testing.T) {
		if first(t, "ran-flaky") {
			t.Error("the first time")
		}
	})
}

func TestGood(t *testing.T) {}
`

// runIn runs testcount's main loop on real packages that have one file each.
func runIn(t *testing.T, files map[string]string, flags ...string) (*count, string) {
	t.Helper()
	dir := t.TempDir()
	files["go.mod"] = "module m\n\ngo 1.26\n"
	for name, body := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	c := newCount(&out)
	if err := c.run(goTest(dir, flags...), "./..."); err != nil {
		t.Fatal(err)
	}
	c.sum()
	return c, out.String()
}

func TestFlakyTestPassesAndIsListed(t *testing.T) {
	c, out := runIn(t, map[string]string{"p/p_test.go": flakes})
	if !c.good(true) || !strings.HasSuffix(out, "\n3 passed, 0 failed, 0 skipped\n") {
		t.Error("a test that passed when run again failed the run")
	}
	if !strings.Contains(out, "FLAKY m/p TestFlaky/sub: failed, then passed by itself") || !strings.Contains(out, "the first time") {
		t.Error("the flaky test is not listed with its output")
	}
	if t.Failed() {
		t.Log(out)
	}
}

func TestFailureStaysFailed(t *testing.T) {
	c, out := runIn(t, map[string]string{
		"p/p_test.go": flakes,
		"q/q_test.go": "package q\n\nimport \"testing\"\n\nfunc TestBad(t *testing.T) { t.Error(\"always\") }\n",
		"r/r_test.go": "package r\n\nfunc broken( {\n",
	})
	if c.good(false) || !strings.Contains(out, "\n3 passed, 2 failed, 0 skipped\n") {
		t.Error(out)
	}
}

func TestFlagsHoldWhenRunAgain(t *testing.T) {
	flags, packages := split([]string{"-race", "-timeout=9m", "./a", "./b"})
	if !slices.Equal(flags, []string{"-race", "-timeout=9m"}) || !slices.Equal(packages, []string{"./a", "./b"}) {
		t.Error(flags, packages)
	}
	body := strings.Replace(flakes, `func TestGood(t *testing.T) {}`, `func TestGood(t *testing.T) {
	if first(t, "ran-short") || !testing.Short() {
		t.Error("without -short")
	}
}`, 1)
	if c, out := runIn(t, map[string]string{"p/p_test.go": body}, "-short"); !c.good(true) {
		t.Error(out)
	}
}

// TestPanicRunsThePackageAgain checks that the whole package is rerun after a
// panic, because the panic has prevented later tests from running.
func TestPanicRunsThePackageAgain(t *testing.T) {
	body := strings.Replace(flakes, `t.Error("the first time")`, `panic("the first time")`, 1)
	c, out := runIn(t, map[string]string{"p/p_test.go": body})
	if !c.good(true) || !strings.HasSuffix(out, "\n3 passed, 0 failed, 0 skipped\n") {
		t.Error(out)
	}
}

// TestOutputOfUnfinishedTestIsShown checks that when the test process is
// killed, the output of unfinished tests is shown.
func TestOutputOfUnfinishedTestIsShown(t *testing.T) {
	c, out := runIn(t, map[string]string{
		"p/p_test.go": "package p\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestDies(t *testing.T) {\n\tos.Stdout.WriteString(\"my last words\\n\")\n\tp, _ := os.FindProcess(os.Getpid())\n\tp.Kill()\n\tselect {}\n}\n",
	})
	if c.good(false) || !strings.Contains(out, "my last words") {
		t.Error(out)
	}
}

func TestTooManyFlakyTestsFail(t *testing.T) {
	files := map[string]string{}
	for _, name := range []string{"a", "b", "c", "d"} {
		files[name+"/p_test.go"] = flakes
	}
	c, out := runIn(t, files)
	if c.good(false) || !strings.Contains(out, "4 flaky tests: more than 3 fail the run\n12 passed, 0 failed, 0 skipped\n") {
		t.Error(out)
	}
}

func TestSkipFailsWhereAllIsPromised(t *testing.T) {
	c, out := runIn(t, map[string]string{
		"p/p_test.go": "package p\n\nimport \"testing\"\n\nfunc TestSkip(t *testing.T) { t.Skip() }\n\nfunc TestGood(t *testing.T) {}\n",
	})
	if !c.good(false) || c.good(true) {
		t.Error(out)
	}
}
