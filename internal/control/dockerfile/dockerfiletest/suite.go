// Package dockerfiletest is the test suite for engines: it builds real
// Dockerfiles with the real engine. The Dockerfiles need no network, since they
// start from scratch and use a static busybox.
package dockerfiletest

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	realregistry "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"aloft/internal/control/dockerfile"
	"aloft/internal/control/image"
	"aloft/internal/control/image/registry"
	"aloft/internal/fault"
	"aloft/internal/need"
	"aloft/internal/policy"
)

// A bench is an engine and a repository from which it builds.
type bench struct {
	*dockerfile.Builder
	repo string
}

// base is the beginning of each Dockerfile in the suite.
const base = "FROM scratch AS base\nCOPY busybox /bin/busybox\nCOPY busybox /bin/sh\n"

// Run runs the suite on an engine.
func Run(t *testing.T, engine dockerfile.Engine) {
	need.Root(t)
	busybox, err := os.ReadFile(need.Command(t, "busybox"))
	if err != nil {
		t.Fatal(err)
	}
	images, err := image.Open(t.TempDir(), image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	b := &bench{&dockerfile.Builder{Engine: engine, Images: images, Dir: t.TempDir(), Network: dockerfile.None, Registry: registry.Config{Outbound: policy.Network{Open: []string{"127.0.0.0/8"}}}}, t.TempDir()}
	b.write(t, "busybox", string(busybox))
	if err := os.Chmod(filepath.Join(b.repo, "busybox"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Run("MultiStage", b.multiStage)
	t.Run("Failure", b.failure)
	t.Run("Mistake", b.mistake)
	t.Run("Secret", b.secret)
	t.Run("From", b.from)
	t.Run("Ignore", b.ignore)
	t.Run("Cache", b.cache)
	t.Run("Cancel", b.cancel)
	if len(engine.Keeps()) > 0 {
		t.Run("Room", b.room)
	}
	if !engine.Fetches() {
		t.Run("Escape", b.escape)
		t.Run("Nobody", b.nobody)
		t.Run("Limits", b.limits)
		t.Run("Namespaces", b.namespaces)
		t.Run("SocketMemory", b.socketMemory)
		t.Run("Apart", b.apart)
	}
	t.Run("Network", b.network)
	t.Run("Prune", func(t *testing.T) {
		if err := engine.Prune(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func (b *bench) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(b.repo, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// output records the output of an engine.
type output struct {
	mu    sync.Mutex
	lines []string
}

func (s *output) add(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, line)
}

func (s *output) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lines, "\n")
}

// build builds a Dockerfile with the repository as its context.
func (b *bench) build(t *testing.T, spec dockerfile.Spec) (image.Image, *output, error) {
	t.Helper()
	spec.Root = b.repo
	if spec.Context == "" {
		spec.Context = "."
	}
	out := &output{}
	_, img, err := b.Build(t.Context(), spec, out.add)
	return img, out, err
}

// content returns a file of the image, from the topmost layer that has it.
func content(img image.Image, name string) string {
	for _, dir := range img.Lower {
		if data, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
			return string(data)
		}
	}
	return ""
}

func (b *bench) multiStage(t *testing.T) {
	b.write(t, "dir/Dockerfile", base+`ARG WHAT=nothing
RUN echo "made of $WHAT" >/made && \
    echo "as $(busybox id -u)"
FROM base AS unused
RUN exit 1
FROM base
COPY --from=base /made /copy
ENV GREETING=hello
WORKDIR /app
USER 1000:1000
RUN echo "$GREETING from $(busybox id -u) in $(pwd)"
`)
	img, out, err := b.build(t, dockerfile.Spec{Dockerfile: "dir/Dockerfile", Args: map[string]string{"WHAT": "wood and more"}})
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := content(img, "copy"); got != "made of wood and more\n" {
		t.Errorf("the copy is %q", got)
	}
	if c := img.Config; c.User != "1000:1000" || c.WorkingDir != "/app" || !strings.Contains(strings.Join(c.Env, " "), "GREETING=hello") {
		t.Errorf("its configuration is %+v", c)
	}
	for _, want := range []string{"as 0", "hello from 1000 in /app"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("nothing says %q:\n%s", want, out)
		}
	}
	target, out, err := b.build(t, dockerfile.Spec{Dockerfile: "dir/Dockerfile", Target: "base"})
	if err != nil || content(target, "made") != "made of nothing\n" {
		t.Errorf("the stage by itself: %v, %q\n%s", err, content(target, "made"), out)
	}
}

func (b *bench) failure(t *testing.T) {
	_, out, err := b.build(t, dockerfile.Spec{Contents: base + `# a remark
RUN echo fine
RUN echo "about to fail" && \
    echo "on purpose" >&2 && \
    exit 7
RUN echo ne''ver
`})
	f, ok := errors.AsType[*dockerfile.Failure](err)
	if !ok {
		t.Fatalf("error is %v\n%s", err, out)
	}
	if f.Line != 6 || !strings.HasPrefix(f.Step, `RUN echo "about to fail"`) || !strings.Contains(f.Why, "7") {
		t.Errorf("it says %v", f)
	}
	if text := strings.Join(f.Output, "\n"); !strings.Contains(text, "on purpose") || strings.Contains(out.String(), "never") {
		t.Errorf("the last lines are %q", text)
	}
	if fault.Of(err).Kind != fault.KindInvalid {
		t.Errorf("it is a fault of the kind %v", fault.Of(err).Kind)
	}
}

func (b *bench) mistake(t *testing.T) {
	_, out, err := b.build(t, dockerfile.Spec{Contents: "FROM scratch\nCOPY absent /\n"})
	if err == nil || !strings.Contains(err.Error(), "absent") {
		t.Errorf("error is %v\n%s", err, out)
	}
	_, out, err = b.build(t, dockerfile.Spec{Contents: "FROM scratch\nMAKE it so\n"})
	if err == nil || !strings.Contains(strings.ToUpper(err.Error()), "MAKE") {
		t.Errorf("error is %v\n%s", err, out)
	}
}

func (b *bench) secret(t *testing.T) {
	spec := dockerfile.Spec{
		Contents: base + "RUN --mount=type=secret,id=token busybox wc -c </run/secrets/token >/length && busybox ls /run/secrets\n",
		Secrets:  map[string]string{"token": "hush-hush-hush"},
	}
	img, out, err := b.build(t, spec)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := strings.TrimSpace(content(img, "length")); got != "14" {
		t.Errorf("the step read %q bytes", got)
	}
	for _, dir := range img.Lower {
		if data, _ := os.ReadFile(filepath.Join(dir, "run/secrets/token")); len(data) > 0 {
			t.Error("the secret is in the image")
		}
	}
	if left, err := os.ReadDir(b.Dir); err != nil || len(left) != 0 {
		t.Errorf("the build has left %v, %v", left, err)
	}
}

// from builds an image based on an image of a registry that requires
// authentication.
func (b *bench) from(t *testing.T) {
	inner := realregistry.New(realregistry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "robot" || password != "right" {
			w.Header().Set("WWW-Authenticate", `Basic realm="here"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	ref, err := name.ParseReference(host + "/team/base:1")
	if err != nil {
		t.Fatal(err)
	}
	pushed := b.image(t, v1.Config{Env: []string{"OF=base"}})
	if err := remote.Write(ref, pushed, remote.WithAuth(&authn.Basic{Username: "robot", Password: "right"})); err != nil {
		t.Fatal(err)
	}
	own := b.Registry
	defer func() { b.Registry = own }()
	for token, want := range map[string]bool{"wrong-one": false, "right": true} {
		b.Registry.Credentials = map[string]registry.Credential{host: {Username: "robot", Token: token}}
		img, out, err := b.build(t, dockerfile.Spec{Contents: "FROM " + host + "/team/base:1\nRUN echo on $OF >/on\n"})
		if (err == nil) != want || want && content(img, "on") != "on base\n" {
			t.Errorf("with the token %s: %v\n%s", token, err, out)
		}
		if err != nil && strings.Contains(err.Error()+out.String(), token) {
			t.Errorf("the token is in the output: %v\n%s", err, out)
		}
	}
}

// image returns an image with the suite's busybox, for a registry.
func (b *bench) image(t *testing.T, config v1.Config) v1.Image {
	t.Helper()
	busybox, err := os.ReadFile(filepath.Join(b.repo, "busybox"))
	if err != nil {
		t.Fatal(err)
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, name := range []string{"bin/busybox", "bin/sh"} {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(busybox)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(busybox); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		t.Fatal(err)
	}
	file, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Config = "linux", runtime.GOARCH, config
	if img, err = mutate.ConfigFile(img, file); err != nil {
		t.Fatal(err)
	}
	return img
}

func (b *bench) ignore(t *testing.T) {
	busybox, err := os.ReadFile(filepath.Join(b.repo, "busybox"))
	if err != nil {
		t.Fatal(err)
	}
	b.write(t, "context/busybox", string(busybox))
	b.write(t, "context/kept", "x")
	b.write(t, "context/left-out", "x")
	b.write(t, "context/.dockerignore", "left-*\n")
	spec := dockerfile.Spec{Contents: base + "COPY . /all/\n", Context: "context"}
	img, out, err := b.build(t, spec)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if content(img, "all/kept") != "x" || content(img, "all/left-out") != "" {
		t.Error(".dockerignore does not count")
	}
	// A .dockerignore that links to a file of the host is not followed.
	if err := os.Remove(filepath.Join(b.repo, "context/.dockerignore")); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"context/out": "/etc/hostname", "context/up": "../../../../../../etc/hostname"} {
		if err := os.Symlink(target, filepath.Join(b.repo, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"out", "up"} {
		spec.Contents = base + "COPY " + name + " /stolen\n"
		if img, out, err = b.build(t, spec); err == nil && content(img, "stolen") != "" {
			t.Errorf("COPY through the link %s has read a file of the host:\n%s", name, out)
		}
	}
}

// cache builds a step with random output twice. Both builds must have the same
// output.
func (b *bench) cache(t *testing.T) {
	spec := dockerfile.Spec{Contents: base + "RUN busybox head -c 16 /dev/urandom | busybox sha256sum >/random\n"}
	var first string
	for i := range 3 {
		spec.NoCache = i == 2
		img, out, err := b.build(t, spec)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		got := content(img, "random")
		switch {
		case got == "":
			t.Fatalf("the step has written nothing:\n%s", out)
		case i == 0:
			first = got
		case (got == first) != (i == 1):
			t.Errorf("build %d made %q, the first %q:\n%s", i, got, first, out)
		}
	}
}

// cancel cancels a build while a step runs, and checks that the step ends too.
func (b *bench) cancel(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	why := errors.New("nobody wants it")
	mark := fmt.Sprintf("8%d.5", os.Getpid())
	_, _, err := b.Build(ctx, dockerfile.Spec{Root: b.repo, Context: ".", Contents: base + "RUN echo it is run''ning && busybox sleep " + mark + "\n"}, func(line string) {
		if strings.Contains(line, "it is running") {
			stop(why)
		}
	})
	stop(nil)
	if !errors.Is(err, why) {
		t.Errorf("error is %v", err)
	}
	for _, pid := range running(t, mark) {
		t.Errorf("its step still runs: %d", pid)
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	}
}

// network builds with the network of machines. RUN and ADD may reach the hosts
// that the policy allows, but never the server's loopback or its metadata
// service.
func (b *bench) network(t *testing.T) {
	var mu sync.Mutex
	hits := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		hits[r.URL.Path]++
		_, _ = io.WriteString(w, "of the host")
	}))
	defer server.Close()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b.Network = dockerfile.Machine
	defer func() { b.Network = dockerfile.None }()
	// The gateway's address leads to the host's loopback if the operator allows
	// that.
	opened := policy.Network{Mode: policy.AllowAll, Open: []string{"127.0.0.1/32"}}
	limited := policy.Network{Mode: policy.List, Open: opened.Open}
	get := func(at string) string { return "busybox timeout 9 busybox wget -q -O - " + at }
	for name, c := range map[string]struct {
		policy policy.Network
		lines  string
		built  bool // whether the build must succeed
		want   string
	}{
		"RUN reaches what is allowed":      {opened, "RUN " + get("http://172.30.0.1:"+port+"/opened") + " >/got\n", true, "of the host"},
		"RUN reaches nothing else":         {policy.Network{Mode: policy.AllowAll}, "RUN " + get("http://172.30.0.1:"+port+"/closed") + "\n", false, ""},
		"RUN reaches nothing off the list": {limited, "RUN " + get("http://172.30.0.1:"+port+"/unlisted") + "\n", false, ""},
		"RUN has a loopback of its own":    {opened, "RUN " + get("http://127.0.0.1:"+port+"/loopback") + "\n", false, ""},
		"RUN has no metadata":              {opened, "RUN " + get("http://169.254.169.254/latest/meta-data/") + "\n", false, ""},
		"RUN asks the gateway for names":   {opened, "RUN cat /etc/resolv.conf >/got\n", true, "nameserver 172.30.0.1"},
		"ADD reaches what is allowed":      {opened, "ADD http://172.30.0.1:" + port + "/added /got\n", true, "of the host"},
		"ADD has a loopback of its own":    {opened, "ADD http://127.0.0.1:" + port + "/looped /got\n", false, ""},
		"ADD has no metadata":              {opened, "ADD http://169.254.169.254/latest/ /got\n", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			img, out, err := b.build(t, dockerfile.Spec{Contents: base + "# " + port + name + "\n" + c.lines, Policy: &c.policy, NoCache: true})
			if (err == nil) != c.built {
				t.Fatalf("error is %v\n%s", err, out)
			}
			if got := content(img, "got"); !strings.Contains(got, c.want) {
				t.Errorf("it has %q\n%s", got, out)
			}
		})
	}
	mu.Lock()
	defer mu.Unlock()
	for path := range hits {
		if path != "/opened" && path != "/added" {
			t.Errorf("the host was asked for %s", path)
		}
	}
}

// running returns the ids of processes that have arg among their arguments.
func running(t *testing.T, arg string) (pids []int) {
	t.Helper()
	entries, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, _ := os.ReadFile(e)
		if args := strings.Split(string(data), "\x00"); len(args) > 2 && args[1] == "sleep" && args[2] == arg {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(e)))
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}
