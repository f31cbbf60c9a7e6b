// Package need lets a test say what it cannot run without. A missing need
// skips the test, with the reason, unless TEST_NEEDS lists it: then it fails,
// so that CI cannot skip in silence.
package need

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Root skips or fails the test where it does not run as root.
func Root(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		missing(t, "root", fmt.Errorf("uid %d", os.Geteuid()))
	}
}

// Command skips or fails the test where a program is not installed, and
// returns its path.
func Command(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		missing(t, name, err)
	}
	return path
}

// File skips or fails the test where a file is not there. The need is named
// what.
func File(t testing.TB, what, path string) {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		missing(t, what, err)
	}
}

// Missing skips or fails the test for want of what the test itself looked for.
func Missing(t testing.TB, what string, why error) {
	t.Helper()
	missing(t, what, why)
}

func missing(t testing.TB, what string, why error) {
	t.Helper()
	promised := strings.Split(os.Getenv("TEST_NEEDS"), ",")
	if slices.Contains(promised, what) || slices.Contains(promised, "all") {
		t.Fatalf("needs %s, which this run promised: %v", what, why)
	}
	t.Skipf("needs %s: %v", what, why)
}
