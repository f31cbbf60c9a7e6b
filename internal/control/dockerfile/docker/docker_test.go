package docker

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"aloft/internal/control/dockerfile"
	"aloft/internal/control/dockerfile/dockerfiletest"
	"aloft/internal/need"
)

// TestEngine runs the suite against Podman's service, which speaks Docker's API.
func TestEngine(t *testing.T) {
	if os.Getenv("ALOFT_TEST_ENGINES") == "" {
		t.Skip("make engines installs Podman, and runs this")
	}
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
	// Which registries have no TLS is the daemon's own affair.
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
		_ = syscall.Unmount(filepath.Join(dir, "root", "overlay"), syscall.MNT_DETACH) // it mounts that on itself
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
	dockerfiletest.Run(t, e, dockerfiletest.Options{NoSecrets: true, GoesOn: true})
}

func TestSend(t *testing.T) {
	dir, work := t.TempDir(), t.TempDir()
	for file, text := range map[string]string{"kept": "x", "left/out": "x", "left/kept": "x", "Dockerfile": "mine"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("/etc/passwd", filepath.Join(dir, "link")), syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600)); err != nil {
		t.Fatal(err)
	}
	job := dockerfile.Job{Context: dir, Dockerfile: filepath.Join(work, "Dockerfile"), Ignore: filepath.Join(work, "ignore")}
	if err := errors.Join(os.WriteFile(job.Dockerfile, []byte("FROM scratch"), 0o600), os.WriteFile(job.Ignore, []byte("left/*\n!left/kept\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	if err := send(&buf, job); err != nil {
		t.Fatal(err)
	}
	var names []string
	r := tar.NewReader(&buf)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
		if data, _ := io.ReadAll(r); h.Name == "link" && (len(data) > 0 || h.Linkname != "/etc/passwd") {
			t.Errorf("the link was read: %q", data)
		}
	}
	if want := []string{name, "Dockerfile", "kept", "left", "left/kept", "link"}; !slices.Equal(names, want) {
		t.Errorf("sent %v, want %v", names, want)
	}
}

func TestAddress(t *testing.T) {
	for address, want := range map[string]bool{"unix:///run/docker.sock": true, "tcp://127.0.0.1:2375": true, "ssh://host": false, "": false, "/run/docker.sock": false} {
		if _, err := New(address); (err == nil) != want {
			t.Errorf("%q: %v", address, err)
		}
	}
}
