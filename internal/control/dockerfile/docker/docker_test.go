package docker

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"aloft/internal/control/dockerfile"
	"aloft/internal/fault"
)

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

// TestNetworkOf checks which value each daemon gets for a build without a
// network. Podman would interpret Docker's value as the host's network.
func TestNetworkOf(t *testing.T) {
	for _, c := range []struct {
		network string
		podman  bool
		want    string
	}{
		{dockerfile.None, false, "networkmode=none"},
		{dockerfile.Host, false, "networkmode=host"},
		{dockerfile.Host, true, "networkmode=host"},
		{dockerfile.None, true, "networkmode=NetworkDisabled&nsoptions=%5B%7B%22Name%22%3A%22network%22%7D%5D"},
	} {
		if got := networkOf(c.network, c.podman).Encode(); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// TestSafe checks that daemons are refused if they run steps as root of their
// host, or have known vulnerabilities.
func TestSafe(t *testing.T) {
	for name, c := range map[string]struct {
		version, info string
		ok            bool
	}{
		"rootless":        {`{"Version":"27.1.1","Components":[{"Name":"Engine","Version":"27.1.1"}]}`, `{"SecurityOptions":["name=seccomp,profile=builtin","name=rootless"]}`, true},
		"remapped":        {`{"Version":"25.0.2"}`, `{"SecurityOptions":["name=userns"]}`, true},
		"root":            {`{"Version":"27.1.1"}`, `{"SecurityOptions":["name=seccomp,profile=name=userns"]}`, false},
		"old":             {`{"Version":"20.10.24+dfsg1"}`, `{"SecurityOptions":["name=rootless"]}`, false},
		"25.0.1":          {`{"Version":"25.0.1"}`, `{"SecurityOptions":["name=rootless"]}`, false},
		"no version":      {`{"Version":"dev"}`, `{"SecurityOptions":["name=rootless"]}`, false},
		"Podman":          {`{"Version":"5.4.0","Components":[{"Name":"Podman Engine","Version":"5.4.0"}]}`, `{"SecurityOptions":["name=rootless"]}`, true},
		"an older Podman": {`{"Version":"4.3.1","Components":[{"Name":"Podman Engine","Version":"4.3.1"}]}`, `{"SecurityOptions":["name=rootless"]}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				said := c.version
				if strings.HasSuffix(r.URL.Path, "/info") {
					said = c.info
				}
				_, _ = io.WriteString(w, said)
			}))
			defer server.Close()
			e, err := New(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			_, err = e.safe(t.Context())
			if (err == nil) != c.ok || err != nil && fault.Of(err).Code != "engine_unsafe" {
				t.Errorf("error is %v", err)
			}
		})
	}
}

func TestAddress(t *testing.T) {
	for address, want := range map[string]bool{"unix:///run/docker.sock": true, "tcp://127.0.0.1:2375": true, "ssh://host": false, "": false, "/run/docker.sock": false} {
		if _, err := New(address); (err == nil) != want {
			t.Errorf("%q: %v", address, err)
		}
	}
}
