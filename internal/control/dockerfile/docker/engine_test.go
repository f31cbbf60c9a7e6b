//go:build engines

package docker

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"aloft/internal/fault"
	"aloft/internal/need"
)

// TestEngine checks that Podman's service, which implements Docker's API, is
// refused because it runs as root.
func TestEngine(t *testing.T) {
	need.Root(t)
	runtime, err := filepath.Abs("../../../../.bin/runc")
	if err != nil {
		t.Fatal(err)
	}
	need.File(t, "runc", runtime)
	dir := t.TempDir()
	socket := filepath.Join(dir, "podman.sock")
	cmd := exec.Command(need.Command(t, "podman"), "--root", filepath.Join(dir, "root"), "--runroot", filepath.Join(dir, "run"), "--tmpdir", filepath.Join(dir, "tmp"),
		"--storage-driver", "overlay", "--runtime", runtime, "--cgroup-manager", "cgroupfs", "system", "service", "--time", "0", "unix://"+socket)
	// The daemon's own configuration lists the registries without TLS.
	registries := filepath.Join(dir, "registries.conf")
	if err := os.WriteFile(registries, []byte("[[registry]]\nlocation = \"127.0.0.1\"\ninsecure = true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), "CONTAINERS_REGISTRIES_CONF="+registries)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		_ = syscall.Unmount(filepath.Join(dir, "root", "overlay"), syscall.MNT_DETACH) // the daemon mounts this folder on itself
		if t.Failed() {
			t.Logf("podman says: %s", log.String())
		}
	})
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		c, err := net.Dial("unix", socket)
		if err == nil {
			_ = c.Close()
			break
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("podman has ended: %v", err)
		case <-tick.C:
		}
	}
	e, err := New("unix://" + socket)
	if err != nil {
		t.Fatal(err)
	}
	// The daemon runs as root of this host, so the server must not let it build
	// for a repository.
	if _, err := e.safe(t.Context()); fault.Of(err).Code != "engine_unsafe" {
		t.Errorf("Podman as root is let build: %v", err)
	}
}
