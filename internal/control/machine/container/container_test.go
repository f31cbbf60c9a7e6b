package container

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"aloft/internal/control/egress"
	"aloft/internal/control/machine"
	"aloft/internal/control/machine/machinetest"
	"aloft/internal/need"
)

const (
	builtRunc  = "../../../../.bin/runc"
	builtRunsc = "../../../../.bin/runsc"
)

// guest builds the stand-in guest, and daemon builds the real pod-daemon, once
// each. They return the folder that contains the program under the name
// pod-daemon.
var (
	guest  = sync.OnceValues(func() (string, error) { return build("aloft/internal/control/machine/machinetest/standin/pod") })
	daemon = sync.OnceValues(func() (string, error) { return build("aloft/cmd/pod-daemon") })
)

// built lists the folders to remove at the end.
var built []string

func build(program string) (string, error) {
	dir, err := os.MkdirTemp("", "aloft-guest-")
	if err != nil {
		return "", err
	}
	built = append(built, dir)
	cmd := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(dir, "pod-daemon"), program)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	return dir, cmd.Run()
}

func TestMain(m *testing.M) {
	if args, ok := os.LookupEnv(childEnv); ok {
		os.Exit(child(strings.Split(args, "|")))
	}
	if len(os.Args) > 1 && os.Args[1] == gatewayChild {
		os.Exit(gateway(os.Args[2:]))
	}
	code := m.Run()
	for _, dir := range built {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// engines returns the paths of the OCI runtimes to test, by name: those that
// were built here and those that are installed on the host.
func engines(t testing.TB) map[string]string {
	t.Helper()
	need.Root(t)
	need.File(t, "runc", builtRunc)
	out := map[string]string{"runc": absolute(t, builtRunc)}
	if _, err := os.Stat(builtRunsc); err == nil {
		out["runsc"] = absolute(t, builtRunsc)
	}
	return out
}

func absolute(t testing.TB, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func config(t testing.TB, dir, engine string) Config {
	t.Helper()
	bin, err := guest()
	if err != nil {
		t.Fatal(err)
	}
	return Config{Dir: dir, RuntimePath: engine, Binaries: bin, Gateway: []string{absolute(t, os.Args[0]), gatewayChild}, ConnectionLogs: egress.Logs(filepath.Join(dir, "connections")), Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}
}

func newRuntime(t testing.TB, dir, engine string) *Runtime {
	t.Helper()
	return start(t, config(t, dir, engine))
}

func start(t testing.TB, conf Config) *Runtime {
	t.Helper()
	r, err := New(conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func TestRuntime(t *testing.T) {
	for name, path := range engines(t) {
		t.Run(name, func(t *testing.T) {
			machinetest.Run(t, machinetest.Harness{
				New:      func(t *testing.T, dir string) machine.Runtime { return newRuntime(t, dir, path) },
				Spec:     machine.Spec{Image: "host"},
				Standin:  true,
				Kill:     killInit,
				HalfMade: halfMade,
			})
		})
	}
}

// TestRuntimeWithPodDaemon runs the suite with the real pod-daemon.
func TestRuntimeWithPodDaemon(t *testing.T) {
	runc := engines(t)["runc"]
	bin, err := daemon()
	if err != nil {
		t.Fatal(err)
	}
	machinetest.Run(t, machinetest.Harness{
		New: func(t *testing.T, dir string) machine.Runtime {
			conf := config(t, dir, runc)
			conf.Binaries = bin
			return start(t, conf)
		},
		Spec:     machine.Spec{Image: "host"},
		Kill:     killInit,
		HalfMade: halfMade,
	})
}

func halfMade(t *testing.T, dir, id string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, "machines", id, "upper"), 0o700); err != nil {
		t.Fatal(err)
	}
}

func killInit(t *testing.T, r machine.Runtime, id string) {
	t.Helper()
	fd, err := r.(*Runtime).handle(id).openInit()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil {
		t.Fatal(err)
	}
}
