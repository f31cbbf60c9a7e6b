//go:build engines

package e2e

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"aloft/internal/need"
)

// debianBase pushes a minimal Debian 13 to a registry, and returns its reference.
func debianBase(t *testing.T) string {
	t.Helper()
	need.Command(t, "mmdebstrap")
	file := filepath.Join(t.TempDir(), "debian.tar")
	if out, err := exec.Command("mmdebstrap", "--variant=minbase", "--skip=output/dev", "trixie", file, "http://deb.debian.org/debian").CombinedOutput(); err != nil {
		t.Fatalf("make Debian: %v\n%s", err, out)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return os.Open(file) })
	if err != nil {
		t.Fatal(err)
	}
	config := &v1.ConfigFile{OS: "linux", Architecture: runtime.GOARCH, Config: v1.Config{Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, Cmd: []string{"bash"}}}
	img, err := mutate.ConfigFile(empty.Image, config)
	if err != nil {
		t.Fatal(err)
	}
	if img, err = mutate.AppendLayers(img, layer); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	text := strings.TrimPrefix(server.URL, "http://") + "/library/debian:13"
	ref, err := name.ParseReference(text, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, img); err != nil {
		t.Fatal(err)
	}
	return text
}

// TestReferenceImage builds images/debian as a person does, and uses what the
// image is for in a machine: each language, Docker with Compose and buildx, and
// the browser.
func TestReferenceImage(t *testing.T) {
	base := debianBase(t)
	host, _, _ := strings.Cut(base, "/")
	a := start(t, scripted(t, shellScript("true"))+`
images: {insecure: ["`+host+`"]}
machine: {image: "local:full", docker: true, disk_bytes: 17179869184}
`)
	file, err := filepath.Abs("../../images/debian/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary(t), "image", "build", "full", "--data", a.Data, "--config", a.config, "--dockerfile", file, "--build-arg", "BASE="+base)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out[max(0, len(out)-8<<10):])
	}
	r := a.finish(a.create("", "Begin", nil))
	for command, want := range map[string]string{
		"for c in git gh tmux rg fd python3 pip3 go node npm gcc make docker ffmpeg xfwm4 Xtigervnc websockify google-chrome chromium; do command -v $c >/dev/null || echo no $c; done; ls -d /usr/share/novnc": "/usr/share/novnc\n",
		"google-chrome --headless --dump-dom 'data:text/html,<p>shown</p>' 2>/dev/null": "<p>shown</p>",
		"ls -l /opt/google/chrome/chrome":                                               "/usr/bin/chromium",
		"sudo -n id -un; id -un":                                                        "root\nubuntu\n",
		"test -d ~/.nvm || echo only Debian; node --version":                            "v20.",
		"sudo service docker start >/dev/null 2>&1; for i in $(seq 300); do sudo docker info >/dev/null 2>&1 && break; sleep 0.1; done; sudo docker compose version; sudo docker buildx version; sudo docker info -f '{{.Driver}}'": "overlay2\n",
	} {
		got := a.output("agent", "exec", r.AgentID, "--", "bash", "-c", command)
		if !strings.Contains(got, want) || strings.Contains(got, "no ") {
			t.Errorf("%s: it says %q, want %q", command, got, want)
		}
	}
}
