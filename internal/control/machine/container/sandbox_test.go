package container

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/control/machine"
	"aloft/internal/need"
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

// TestSandboxInGVisor says what the sandbox does in a machine of class strong:
// gVisor has neither Landlock nor mounts that can be made read-only after the
// fact, so nothing is run, unless that was asked for; then it is said what is
// not held, and the filter of system calls holds.
func TestSandboxInGVisor(t *testing.T) {
	engines(t)
	need.File(t, "runsc", builtRunsc) // hack/build-runsc.sh makes it
	conf := config(t, t.TempDir(), absolute(t, builtRunsc))
	bin := t.TempDir()
	pod, err := os.ReadFile(filepath.Join(conf.Binaries, "pod-daemon"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "pod-daemon"), pod, 0o755); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(bin, "sandbox"), "aloft/cmd/sandbox")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	conf.Binaries = bin
	m := create(t, start(t, conf), machine.Spec{Image: "host"})
	for _, user := range []string{"", "setpriv --reuid=1000 --regid=1000 --clear-groups env HOME=/tmp "} {
		for _, tt := range []struct {
			args string
			code int
			says []string
		}{
			{"probe", 125, []string{"no Landlock, no namespaces", "not all can be enforced", "gVisor is the boundary"}},
			{"-- touch /tmp/ran", 123, []string{"cannot enforce the policy: files", "nothing was run"}},
			{"-- test -e /tmp/ran", 123, []string{"nothing was run"}},
			{"--best-effort -- sh -c 'test ! -e /tmp/ran && echo $CURSOR_SANDBOX_LANDLOCK_STATUS'", 0, []string{"not enforced: files", "not enforced: protected paths", "not_enforced\n"}},
			{"--best-effort -- unshare -rm true", 1, []string{"Operation not permitted"}},
		} {
			got := ask(t, m, "sh", "-c", "mkdir -p /tmp/w && chmod 777 /tmp/w && cd /tmp/w && "+user+"/exec-daemon/sandbox "+tt.args+" 2>&1")
			if got.Code != tt.code {
				t.Errorf("%s%s: exit %d, want %d: %s", user, tt.args, got.Code, tt.code, got.Output)
			}
			for _, s := range tt.says {
				if !strings.Contains(got.Output, s) {
					t.Errorf("%s%s: %q does not say %q", user, tt.args, got.Output, s)
				}
			}
		}
	}
}
