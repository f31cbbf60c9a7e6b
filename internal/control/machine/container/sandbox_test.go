package container

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"aloft/internal/control/machine"
	"aloft/internal/control/machine/container/seccomp"
	"aloft/internal/need"
)

// sandboxed creates a machine whose sandbox program is replaced by the given
// build of the sandbox or of its test.
func sandboxed(t *testing.T, engine string, build ...string) machine.Machine {
	t.Helper()
	return create(t, withSandbox(t, engine, build...), machine.Spec{Image: "host"})
}

// withSandbox returns a runtime whose machines contain that program.
func withSandbox(t *testing.T, engine string, build ...string) *Runtime {
	t.Helper()
	conf := config(t, t.TempDir(), engine)
	bin := t.TempDir()
	pod, err := os.ReadFile(filepath.Join(conf.Binaries, "pod-daemon"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "pod-daemon"), pod, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", append(build, "-o", filepath.Join(bin, "sandbox"), "aloft/cmd/sandbox")...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	conf.Binaries = bin
	return start(t, conf)
}

const asUser = "setpriv --reuid=1000 --regid=1000 --clear-groups env HOME=/home/ubuntu "

// TestEscapesInside runs the sandbox's table of escape attempts in runc and
// gVisor machines, as the agent's user and as root. gVisor has neither Landlock
// nor mount_setattr, so there mounts, namespaces and the seccomp filter must
// stop the attempts.
func TestEscapesInside(t *testing.T) {
	all := engines(t)
	need.File(t, "runsc", builtRunsc) // built by hack/build-runsc.sh
	for name, path := range map[string]string{"runc": all["runc"], "gvisor": all["runsc"]} {
		t.Run(name, func(t *testing.T) {
			m := sandboxed(t, path, "test", "-c")
			users := map[string]string{"user": asUser}
			if os.Getenv("ALOFT_TEST_SOAK") != "" {
				users["root"] = "env HOME=/root "
			}
			for who, wrap := range users {
				got := ask(t, m, "sh", "-c", "mkdir -p /home/ubuntu; chown 1000:1000 /home/ubuntu; cd /tmp && exec "+wrap+"ALOFT_TEST_IN_MACHINE="+name+
					" TEST_NEEDS=all ALOFT_TEST_ESCAPE_DIR=/home/ubuntu /exec-daemon/sandbox -test.run '^TestEscapes$' -test.v")
				if got.Code != 0 || !strings.Contains(got.Output, "--- PASS: TestEscapes ") {
					t.Errorf("%s: exit %d: %s", who, got.Code, got.Output)
				}
			}
		})
	}
}

// TestSandboxInGVisor checks which mechanisms the sandbox uses in a machine of
// class "strong", and which restrictions it reports as not enforceable.
func TestSandboxInGVisor(t *testing.T) {
	engines(t)
	need.File(t, "runsc", builtRunsc)
	m := sandboxed(t, absolute(t, builtRunsc), "build")
	for _, user := range []string{"", asUser} {
		for _, tt := range []struct {
			args string
			code int
			says []string
		}{
			{"probe", 0, []string{"no Landlock, namespaces by a user namespace, mounts by mount(2)", "signals to other processes", "status: fully_enforced"}},
			{"explain", 0, []string{"mounts: one by one, by mount(2)", "seccomp: always no_xattr"}},
			{"-- sh -c 'echo x > made && cat made && echo $CURSOR_SANDBOX_LANDLOCK_STATUS'", 0, []string{"x\nfully_enforced\n"}},
			{"-- touch .vscode/tasks.json", 1, []string{"Read-only file system"}},
			{"-- unshare -rm true", 1, []string{"Operation not permitted"}},
		} {
			got := ask(t, m, "sh", "-c", "rm -rf /tmp/w && mkdir -p /tmp/w && chmod 777 /tmp/w && cd /tmp/w && "+user+"/exec-daemon/sandbox "+tt.args+" 2>&1")
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

// TestSandboxInDockersProfile runs the sandbox in a container with Docker's
// default seccomp profile, which forbids new namespaces. The sandbox must run
// no command, and must say which setting to change.
func TestSandboxInDockersProfile(t *testing.T) {
	runc := engines(t)["runc"]
	r := withSandbox(t, runc, "build")
	r.mapped = false // unmapped, so that this test sees the mount of the machine's root
	m := create(t, r, machine.Spec{Image: "host"}).(*Machine)
	text, err := os.ReadFile(filepath.Join(m.path("bundle"), "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	var c specs.Spec
	if err := json.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	host := hostFacts()
	if c.Linux.Seccomp, err = seccomp.Profile(host.arch, host.kernel, capabilities); err != nil {
		t.Fatal(err)
	}
	c.Process.User, c.Process.Args, c.Linux.CgroupsPath, c.Hooks = specs.User{UID: 1000, GID: 1000}, []string{"/bin/sh", "-c",
		"cd /tmp && /exec-daemon/sandbox probe; echo probed $?; /exec-daemon/sandbox -- touch /tmp/ran; echo exit $?; test ! -e /tmp/ran && echo nothing ran"}, "aloft-docker-profile", nil
	bundle := t.TempDir()
	if text, err = json.Marshal(c); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bundle, "config.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), runc, "--root", t.TempDir(), "run", "--bundle", bundle, "aloft-docker-profile").CombinedOutput()
	for _, want := range []string{"no namespaces (make namespaces: operation not permitted)", "status: this host cannot enforce", "as in a Docker container", "probed 125", "exit 123", "nothing was run", "nothing ran"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is not said: %v: %s", want, err, out)
		}
	}
}
