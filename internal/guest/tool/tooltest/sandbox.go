package tooltest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"aloft/internal/guest/sandbox"
	"aloft/internal/need"
)

// Sandbox builds the program that runs commands in a sandbox, and returns the
// program's path. The host must be able to enforce the whole sandbox.
func Sandbox(t testing.TB) string {
	t.Helper()
	if k := sandbox.Probe(); !k.Namespaces || k.Landlock < 6 {
		need.Missing(t, "sandbox", os.ErrInvalid)
	}
	program := filepath.Join(t.TempDir(), "sandbox")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "aloft/cmd/sandbox")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}
