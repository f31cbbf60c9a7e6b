package e2e

import (
	"compress/gzip"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"aloft/internal/control/gateway/gittest"
)

const registryToken = "t0ken-of-the-registry"

// privateRegistry starts a registry that requires a login. It listens on an
// address of the host that is not loopback, because Docker uses no proxy for
// loopback.
func privateRegistry(t *testing.T) (host string) {
	t.Helper()
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "robot" || password != registryToken {
			w.Header().Set("WWW-Authenticate", `Basic realm="here"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	l, err := net.Listen("tcp", net.JoinHostPort(hostAddress(t), "0"))
	if err != nil {
		t.Fatal(err)
	}
	_ = server.Listener.Close() // the listener on loopback
	server.Listener = l
	server.Start()
	t.Cleanup(server.Close)
	return l.Addr().String()
}

// pushImages stores images with the files of a tar archive in a private registry.
func pushImages(t *testing.T, host, archive string, images map[string]v1.Config) {
	t.Helper()
	layer, err := tarball.LayerFromFile(archive, tarball.WithCompressionLevel(gzip.BestSpeed), tarball.WithCompressedCaching)
	if err != nil {
		t.Fatal(err)
	}
	for image, config := range images {
		img, err := mutate.AppendLayers(empty.Image, layer)
		if err != nil {
			t.Fatal(err)
		}
		if img, err = mutate.Config(img, config); err != nil {
			t.Fatal(err)
		}
		ref, err := name.ParseReference(host+"/"+image, name.Insecure)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(ref, img, remote.WithAuth(&authn.Basic{Username: "robot", Password: registryToken})); err != nil {
			t.Fatal(err)
		}
	}
}

// archive returns a tar archive of files in the folder dir.
func archive(t *testing.T, dir string, args ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "files.tar")
	if out, err := exec.Command("tar", append([]string{"-C", dir, "-cf", file}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return file
}

// hostAddress returns an address of this host that is not loopback.
func hostAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	t.Fatal("this host has no IPv4 address besides loopback")
	return ""
}

// TestDockerPull pulls private images in a machine. The Docker of a member's
// machine gets the images that the server's rules allow for that member; an
// environment's build gets those of its repository. No machine gets the
// credential.
func TestDockerPull(t *testing.T) {
	t.Parallel()
	image := dockerImage(t)
	host := privateRegistry(t)
	images := map[string]v1.Config{}
	for _, name := range []string{"team/app:1", "team/closed:1", "team/own:1", "other/app:1"} {
		images[name] = v1.Config{Entrypoint: []string{"/bin/busybox"}, Cmd: []string{"echo", "ran", name}}
	}
	pushImages(t, host, archive(t, image, "bin/busybox"), images)
	git := gittest.New(t)
	own := git.Repo("team/own", map[string]string{
		"README.md":                "own\n",
		".cursor/environment.json": `{"user": "ubuntu", "install": "sh up.sh && sudo docker pull -q ` + host + `/team/own:1 && ! sudo docker pull -q ` + host + `/team/closed:1"}`,
		"up.sh":                    "sudo service docker start\nfor i in $(seq 300); do sudo docker info >/dev/null 2>&1 && exit; sleep 0.1; done; exit 1\n",
	})
	closed := git.Repo("team/closed", map[string]string{"README.md": "closed\n"})
	ip, _, _ := net.SplitHostPort(host)
	a := start(t, strings.NewReplacer("HOST", host, "IP", ip, "OWN", own, "CLOSED", closed, "TOKEN", registryToken, "IMAGE", image).Replace(
		scripted(t, shellScript("true"))+`
images:
  insecure: ["HOST"]
  credentials:
    - host: "HOST"
      username: robot
      token: TOKEN
      machines:
        - {images: team/app}
        - {images: team/own, repository: "OWN"}
        - {images: team/closed, repository: "CLOSED"}
machine:
  image: "rootfs:IMAGE"
  docker: true
  egress: {open: [IP/32]}
`))
	a.output("member", "invite", "ada@example.com")
	a.output("access", "allow", own)
	a.output("access", "use", "allow-list")
	a.Key = strings.TrimSpace(a.output("key", "sub-token", "ada@example.com"))
	r := a.finish(a.create(own, "Begin", nil))
	in := func(command string) string {
		t.Helper()
		return a.output("agent", "exec", r.AgentID, "--", "sh", "-c", strings.ReplaceAll("cd /workspace; ("+command+") 2>&1 || true", "HOST", host))
	}
	if got := in("sh up.sh >/dev/null 2>&1; sudo docker images -q HOST/team/own | wc -l"); got != "1\n" {
		t.Errorf("images that the build has pulled: %s", got)
	}
	for _, c := range []struct{ command, want string }{
		{"sudo docker run --rm HOST/team/app:1", "ran team/app:1"},
		{"echo FROM HOST/team/own:1 > Dockerfile; sudo docker rmi -f HOST/team/own:1; sudo DOCKER_BUILDKIT=1 docker build -q -t kit . >/dev/null; sudo docker run --rm kit", "ran team/own:1"},
		{"sudo docker pull HOST/team/closed:1", "the person of this agent may not use the repository"},
		{"sudo docker pull HOST/other/app:1", "denies access"},
		{"sudo docker pull HOST/team/app:2", "no such tag"},
		{"sudo docker push HOST/team/app:1", "export NO_PROXY=HOST"},
		{"sudo cat /etc/default/docker /run/aloft-git/* /proc/*/environ 2>/dev/null | grep -c " + registryToken, "0\n"},
		// Without the server, the registry requires a login.
		{"curl -sS -m 9 -o /dev/null -w '%{http_code}' http://HOST/v2/", "401"},
		{"echo 'export NO_PROXY=" + ip + "' | sudo tee -a /etc/default/docker >/dev/null; sudo service docker stop; sh up.sh; sudo docker pull HOST/team/app:1", "http: server gave HTTP response to HTTPS client"},
	} {
		if got, want := in(c.command), strings.ReplaceAll(c.want, "HOST", host); !strings.Contains(got, want) {
			t.Errorf("%s: it says %q, want %q", c.command, got, want)
		}
	}
}

// TestDockerPullStrong pulls a private image in a machine of gVisor.
func TestDockerPullStrong(t *testing.T) {
	t.Parallel()
	image := dockerImage(t)
	host := privateRegistry(t)
	pushImages(t, host, archive(t, image, "bin/busybox"), map[string]v1.Config{"team/app:1": {Entrypoint: []string{"/bin/busybox"}, Cmd: []string{"echo", "ran"}}})
	ip, _, _ := net.SplitHostPort(host)
	a := start(t, strings.NewReplacer("HOST", host, "IP", ip, "TOKEN", registryToken, "IMAGE", image).Replace(
		scripted(t, shellScript("sudo service docker start; for i in $(seq 300); do sudo docker info >/dev/null 2>&1 && break; sleep 0.1; done; sudo docker run --rm --network=host "+host+"/team/app:1"))+`
images:
  insecure: ["HOST"]
  credentials: [{host: "HOST", username: robot, token: TOKEN, machines: [{images: "*"}]}]
machine:
  image: "rootfs:IMAGE"
  class: strong
  strong: `+runsc(t)+`
  docker: true
  egress: {open: [IP/32]}
`))
	r := a.finish(a.create("", "Begin", nil))
	if events := a.events(r.AgentID); !strings.Contains(events, "Downloaded newer image for "+host) || !strings.Contains(events, `ran\n`) {
		t.Errorf("it did not run:\n%s", events)
	}
}
