// Package need lets a test declare its requirements. If one is missing, the test is
// skipped with the reason. If TEST_NEEDS lists the requirement, the test fails instead,
// so that CI does not skip tests unnoticed.
package need

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Root skips or fails the test unless it runs as root.
func Root(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		missing(t, "root", fmt.Errorf("uid %d", os.Geteuid()))
	}
}

// Command skips or fails the test if a program is not installed; otherwise it
// returns the program's path.
func Command(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		missing(t, name, err)
	}
	return path
}

// File skips or fails the test if a file does not exist. what is the name of the
// requirement.
func File(t testing.TB, what, path string) {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		missing(t, what, err)
	}
}

// Missing skips or fails the test because a requirement that the test checked itself is
// missing.
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
