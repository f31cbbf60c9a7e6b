package container

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/control/machine"
)

// TestEscapesInside makes every attempt of the sandbox's table in a machine, as
// its agent's user and as its root: the program of that test is put where the
// sandbox's is.
func TestEscapesInside(t *testing.T) {
	conf := config(t, t.TempDir(), engines(t)["runc"])
	bin := t.TempDir()
	pod, err := os.ReadFile(filepath.Join(conf.Binaries, "pod-daemon"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "pod-daemon"), pod, 0o755); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", filepath.Join(bin, "sandbox"), "aloft/cmd/sandbox")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	conf.Binaries = bin
	m := create(t, start(t, conf), machine.Spec{Image: "host"})
	users := map[string]string{"user": "setpriv --reuid=1000 --regid=1000 --clear-groups env HOME=/home/ubuntu "}
	if os.Getenv("ALOFT_TEST_SOAK") != "" {
		users["root"] = "env HOME=/root "
	}
	for who, wrap := range users {
		got := ask(t, m, "sh", "-c", "cd /tmp && exec "+wrap+"ALOFT_TEST_IN_MACHINE=1 TEST_NEEDS=all ALOFT_TEST_ESCAPE_DIR=/home/ubuntu /exec-daemon/sandbox -test.run '^TestEscapes$' -test.v")
		if got.Code != 0 || !strings.Contains(got.Output, "--- PASS: TestEscapes ") {
			t.Errorf("%s: exit %d: %s", who, got.Code, got.Output)
		}
	}
}
