package image

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	realregistry "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/sys/unix"

	"aloft/internal/control/image/registry"
	"aloft/internal/fault"
	"aloft/internal/lockfile"
	"aloft/internal/need"
)

// testRegistry is a real registry on loopback. A test can manipulate its
// responses.
type testRegistry struct {
	*httptest.Server
	host     string
	requests atomic.Int64
	mu       sync.Mutex
	blobs    map[string]int // number of downloads by blob path
	ranges   []string
	before   func(w http.ResponseWriter, r *http.Request) (done bool)
}

func newRegistry(t testing.TB) *testRegistry {
	t.Helper()
	t.Setenv("DOCKER_CONFIG", t.TempDir()) // ignore the configuration of the user who runs the test
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	reg := &testRegistry{blobs: map[string]int{}}
	inner := realregistry.New(realregistry.Logger(log.New(io.Discard, "", 0)))
	reg.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reg.requests.Add(1)
		reg.mu.Lock()
		before := reg.before
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
			reg.blobs[r.URL.Path]++
			if b := r.Header.Get("Range"); b != "" {
				reg.ranges = append(reg.ranges, b)
			}
		}
		reg.mu.Unlock()
		if before != nil && before(w, r) {
			return
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(reg.Close)
	reg.host = strings.TrimPrefix(reg.URL, "http://")
	return reg
}

// disturb makes the registry call do before each request. If do returns true,
// it has replied to the request.
func (r *testRegistry) disturb(do func(w http.ResponseWriter, r *http.Request) (done bool)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.before = do
}

// push stores an image with the given archives as layers and returns its
// digest.
func (r *testRegistry) push(t testing.TB, ref string, archives ...[]byte) string {
	t.Helper()
	img := empty.Image
	img, err := mutate.ConfigFile(img, &v1.ConfigFile{
		OS: "linux", Architecture: runtime.GOARCH,
		Config: v1.Config{User: "node", Env: []string{"A=b"}, WorkingDir: "/app"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range archives {
		data := pack(t, i%2*2, a)
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil })
		if err != nil {
			t.Fatal(err)
		}
		if img, err = mutate.AppendLayers(img, layer); err != nil {
			t.Fatal(err)
		}
	}
	parsed, err := name.ParseReference(r.host + "/" + ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(parsed, img, remote.WithAuth(&authn.Basic{Username: "robot", Password: "right"})); err != nil {
		t.Fatal(err)
	}
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest.String()
}

// loopback is the network that contains the tests' registries.
var loopback = []string{"127.0.0.0/8"}

func openWith(t testing.TB, dir string, o Options) *Store {
	o.Registry.Outbound.Open = loopback
	t.Helper()
	need.Root(t)
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPull(t *testing.T) {
	reg := newRegistry(t)
	digest := reg.push(t, "team/app:1", smallImage(t)...)
	s := openWith(t, t.TempDir(), Options{Recheck: time.Hour})
	var last Progress
	img, err := s.Prepare(t.Context(), reg.host+"/team/app:1", func(p Progress) { last = p })
	if err != nil {
		t.Fatal(err)
	}
	if img.Digest != digest || len(img.Lower) != 4 || img.Config.User != "node" || img.Config.WorkingDir != "/app" || len(img.Config.Env) != 1 {
		t.Errorf("image is %+v", img)
	}
	if last.Layers != 3 || last.Ready != 3 || last.Done != last.Total || last.Total == 0 {
		t.Errorf("the last progress is %+v", last)
	}
	v := view(img.Lower)
	for name, want := range map[string]bool{"bin/sh": true, "new": true, "gone": false, "opt/old": false, "opt/new": true, "workspace": true} {
		if _, info := v.lookup(name); (info != nil) != want {
			t.Errorf("%s is there: %v", name, info != nil)
		}
	}
	if entries, err := os.ReadDir(filepath.Join(s.dir, "blobs")); err != nil || len(entries) != 0 {
		t.Errorf("blobs are left: %v, %v", entries, err)
	}
	before := reg.requests.Load()
	if _, err := s.Prepare(t.Context(), reg.host+"/team/app:1", nil); err != nil || reg.requests.Load() != before {
		t.Errorf("the second time: %v, %d requests", err, reg.requests.Load()-before)
	}
}

// TestPullPolicy moves a tag and checks which policy pulls again.
func TestPullPolicy(t *testing.T) {
	reg := newRegistry(t)
	one := reg.push(t, "app:1", smallImage(t)[:1]...)
	dir := t.TempDir()
	patient, eager := openWith(t, dir, Options{Recheck: time.Hour}), openWith(t, dir, Options{})
	tag, pinned := reg.host+"/app:1", reg.host+"/app@"+one
	prepare := func(s *Store, ref, want string) {
		t.Helper()
		img, err := s.Prepare(t.Context(), ref, nil)
		if err != nil || img.Digest != want {
			t.Errorf("%s is %s, %v; want %s", ref, img.Digest, err, want)
		}
	}
	prepare(patient, tag, one)
	prepare(patient, pinned, one)
	two := reg.push(t, "app:1", smallImage(t)...)
	prepare(patient, tag, one)
	prepare(eager, tag, two)
	prepare(patient, tag, two)
	first, err := patient.Prepare(t.Context(), pinned, nil)
	if err != nil || first.Pinned != pinned {
		t.Errorf("pinned as %s, %v", first.Pinned, err)
	}
	before := reg.requests.Load()
	prepare(eager, pinned, one)
	if n := reg.requests.Load() - before; n != 0 {
		t.Errorf("a digest that is here made %d requests", n)
	}
	reg.disturb(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusBadGateway)
		return true
	})
	var notes []string
	img, err := eager.Prepare(t.Context(), tag, func(p Progress) { notes = append(notes, p.Note) })
	if err != nil || img.Digest != two || !strings.Contains(strings.Join(notes, " "), "cannot reach the registry") {
		t.Errorf("with the registry out of order: %v, notes %q", err, notes)
	}
	if _, err := eager.Prepare(t.Context(), reg.host+"/other:1", nil); fault.Of(err).Kind != fault.KindUnavailable {
		t.Errorf("an image that is not here, with the registry out of order: %v", err)
	}
}

// TestCredentials pulls from registries that require authentication, with both
// methods that registries use.
func TestCredentials(t *testing.T) {
	basic := func(_ *testRegistry, w http.ResponseWriter, r *http.Request) bool {
		if user, password, _ := r.BasicAuth(); user == "robot" && password == "right" {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="here"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	token := func(reg *testRegistry, w http.ResponseWriter, r *http.Request) bool {
		user, password, asked := r.BasicAuth()
		switch {
		case r.URL.Path == "/token" && asked && user == "robot" && password == "right":
			_ = json.NewEncoder(w).Encode(map[string]any{"token": "for-" + strings.SplitN(r.URL.Query().Get("scope"), ":", 3)[1]})
		case r.URL.Path == "/token":
			w.WriteHeader(http.StatusForbidden)
		case strings.HasPrefix(r.Header.Get("Authorization"), "Bearer for-team/app"):
			return false
		default:
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="%s/token",service="s",scope="repository:team/app:pull"`, reg.URL))
			w.WriteHeader(http.StatusUnauthorized)
		}
		return true
	}
	for kind, guard := range map[string]func(*testRegistry, http.ResponseWriter, *http.Request) bool{"basic": basic, "token": token} {
		t.Run(kind, func(t *testing.T) {
			reg := newRegistry(t)
			reg.push(t, "team/app:1", smallImage(t)...)
			reg.disturb(func(w http.ResponseWriter, r *http.Request) bool { return guard(reg, w, r) })
			ref := reg.host + "/team/app:1"
			for secret, want := range map[string]bool{"right": true, "wrong-secret": false} {
				s := openWith(t, t.TempDir(), Options{Registry: registry.Config{Credentials: map[string]registry.Credential{reg.host: {Username: "robot", Token: secret}}}})
				_, err := s.Prepare(t.Context(), ref, nil)
				if (err == nil) != want {
					t.Errorf("with %s: %v", secret, err)
				}
				if err != nil && (fault.Of(err).Code != "image_denied" || strings.Contains(err.Error(), secret)) {
					t.Errorf("the error is %v", err)
				}
			}
			// Docker's own configuration file works as well.
			s := openWith(t, t.TempDir(), Options{})
			if _, err := s.Prepare(t.Context(), ref, nil); fault.Of(err).Kind != fault.KindDenied {
				t.Errorf("without credentials: %v", err)
			}
			config := fmt.Sprintf(`{"auths":{%q:{"auth":"cm9ib3Q6cmlnaHQ="}}}`, reg.host)
			if err := os.WriteFile(filepath.Join(os.Getenv("DOCKER_CONFIG"), "config.json"), []byte(config), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Prepare(t.Context(), ref, nil); err != nil {
				t.Errorf("with Docker's configuration: %v", err)
			}
		})
	}
}

// largeImage returns a layer of random data, which does not compress.
func largeImage(t testing.TB, size int) [][]byte {
	noise := make([]byte, size)
	_, _ = rand.Read(noise)
	return append(smallImage(t), archive(t, item{name: "noise", body: string(noise)}))
}

// cut truncates the first n responses that are longer than the given number of
// bytes.
func (r *testRegistry) cut(after, n int) {
	var cuts atomic.Int64
	r.disturb(func(w http.ResponseWriter, req *http.Request) bool {
		if req.Method != http.MethodGet || !strings.Contains(req.URL.Path, "/blobs/") || req.Header.Get("Cut") != "" {
			return false
		}
		rec := httptest.NewRecorder()
		req.Header.Set("Cut", "no") // do not truncate the recorder's own request
		r.Config.Handler.ServeHTTP(rec, req)
		body := rec.Body.Bytes()
		for k, v := range rec.Header() {
			w.Header()[k] = v
		}
		w.WriteHeader(rec.Code)
		if len(body) > after && cuts.Add(1) <= int64(n) {
			body = body[:after] // send fewer bytes than Content-Length says
		}
		_, _ = w.Write(body)
		return true
	})
}

func TestPullResumes(t *testing.T) {
	reg := newRegistry(t)
	reg.push(t, "app:1", largeImage(t, 1<<20)...)
	reg.cut(300_000, 3)
	s := openWith(t, t.TempDir(), Options{})
	if _, err := s.Prepare(t.Context(), reg.host+"/app:1", nil); err != nil {
		t.Fatal(err)
	}
	if want := "bytes=300000-"; len(reg.ranges) < 3 || !strings.HasPrefix(reg.ranges[0], want) {
		t.Errorf("it asked for the parts %v; want the first to begin with %s", reg.ranges, want)
	}
}

// pullVariable is the environment variable that makes this test binary run a
// pull. TestPullIsKilled kills it.
const pullVariable = "ALOFT_TEST_PULL"

func TestMain(m *testing.M) {
	ref, dir, ok := strings.Cut(os.Getenv(pullVariable), " ")
	if !ok {
		os.Exit(m.Run())
	}
	var o Options
	o.Registry.Outbound.Open = loopback
	s, err := Open(dir, o)
	if err == nil {
		_, err = s.Prepare(context.Background(), ref, nil)
	}
	fmt.Fprintln(os.Stderr, "it was to be killed:", err)
	os.Exit(1)
}

func TestPullIsKilled(t *testing.T) {
	need.Root(t)
	reg := newRegistry(t)
	reg.push(t, "app:1", largeImage(t, 4<<20)...)
	reg.cut(3<<20, 1_000) // then the registry stops replying
	stalled := make(chan struct{})
	var once sync.Once
	inner := reg.before
	reg.disturb(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Cut") == "" && r.Header.Get("Range") != "" {
			once.Do(func() { close(stalled) })
			<-r.Context().Done()
			return true
		}
		return inner(w, r)
	})
	dir := t.TempDir()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), pullVariable+"="+reg.host+"/app:1 "+dir)
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	select {
	case <-stalled:
	case err := <-ended:
		t.Fatal("the process that was to be killed ended by itself: ", err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-ended
	reg.disturb(nil)
	reg.mu.Lock()
	reg.ranges = nil
	reg.mu.Unlock()
	s := openWith(t, dir, Options{})
	img, err := s.Prepare(t.Context(), reg.host+"/app:1", nil)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(img.Lower[1], "noise")); err != nil || info.Size() != 4<<20 {
		t.Errorf("the layer is not whole: %v", err)
	}
	if len(reg.ranges) != 1 {
		t.Errorf("it did not go on where the killed one was: %v", reg.ranges)
	}
	entries, _ := os.ReadDir(filepath.Join(dir, "layers"))
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), unfinished) {
			t.Errorf("%s is left", e.Name())
		}
	}
}

// TestPullTogether has two stores on one folder pull the same image
// concurrently.
func TestPullTogether(t *testing.T) {
	reg := newRegistry(t)
	reg.push(t, "app:1", largeImage(t, 1<<20)...)
	reg.mu.Lock()
	clear(reg.blobs)
	reg.mu.Unlock()
	dir := t.TempDir()
	var wg sync.WaitGroup
	for range 2 {
		s := openWith(t, dir, Options{})
		for range 4 {
			wg.Go(func() {
				if img, err := s.Prepare(t.Context(), reg.host+"/app:1", nil); err != nil || len(img.Lower) != 5 {
					t.Errorf("%+v, %v", img, err)
				}
			})
		}
	}
	wg.Wait()
	for path, n := range reg.blobs {
		if n > 8 && n != 1 {
			t.Errorf("%s was fetched %d times", path, n)
		}
	}
	layers := 0
	for _, n := range reg.blobs {
		if n == 1 {
			layers++
		}
	}
	if layers < 4 {
		t.Errorf("layers were fetched more than once: %v", reg.blobs)
	}
}

func TestPullOfDamaged(t *testing.T) {
	reg := newRegistry(t)
	reg.push(t, "app:1", largeImage(t, 100_000)...)
	reg.disturb(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/blobs/") || r.Header.Get("Cut") != "" {
			return false
		}
		r.Header.Set("Cut", "no")
		rec := httptest.NewRecorder()
		reg.Config.Handler.ServeHTTP(rec, r)
		body := rec.Body.Bytes()
		body[len(body)/2] ^= 1
		_, _ = w.Write(body)
		return true
	})
	s := openWith(t, t.TempDir(), Options{})
	if _, err := s.Prepare(t.Context(), reg.host+"/app:1", nil); err == nil {
		t.Fatal("a damaged image is no error")
	}
	entries, err := os.ReadDir(filepath.Join(s.dir, "layers"))
	if err != nil || len(entries) != 0 {
		t.Errorf("%v, %v", entries, err)
	}
	reg.disturb(nil)
	if _, err := s.Prepare(t.Context(), reg.host+"/app:1", nil); err != nil {
		t.Errorf("mended: %v", err)
	}
}

func TestPullErrors(t *testing.T) {
	reg := newRegistry(t)
	reg.push(t, "bad:1", archive(t, item{name: "bin/sh"}, item{name: "../x", body: "x"}))
	s := openWith(t, t.TempDir(), Options{})
	for ref, want := range map[string]string{
		reg.host + "/nothing:1":   "has no image",
		reg.host + "/bad:1":       "leads out",
		"UPPER/case":              `an image is "host"`,
		"127.0.0.1:1/app:1":       "cannot be reached",
		"local:nothing":           "imported",
		reg.host + "/bad@sha256:": `an image is "host"`,
	} {
		_, err := s.Prepare(t.Context(), ref, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", ref, err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Prepare(ctx, reg.host+"/nothing:1", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestRemovedAtOnce pulls a layer that other processes are about to remove, so
// they hold its lock. The pull must end, and must not wait for its own lock on the
// download.
func TestRemovedAtOnce(t *testing.T) {
	reg := newRegistry(t)
	reg.push(t, "app:1", smallImage(t)[0])
	s := openWith(t, t.TempDir(), Options{})
	_, err := s.Prepare(t.Context(), reg.host+"/app:1", nil)
	if err != nil {
		t.Fatal(err)
	}
	s.release()
	layers, err := filepath.Glob(s.layerDir(layerKey("*")))
	if err != nil || len(layers) != 1 {
		t.Fatalf("the layers %v, %v", layers, err)
	}
	lock, err := lockfile.Open(layers[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := s.Prepare(ctx, reg.host+"/app:1", nil); err == nil || ctx.Err() != nil {
		t.Errorf("with a layer that is being removed: %v", err)
	}
}

func TestDiskFull(t *testing.T) {
	need.Root(t)
	reg := newRegistry(t)
	reg.push(t, "app:1", largeImage(t, 4<<20)...)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	s := openWith(t, dir, Options{})
	_, err := s.Prepare(t.Context(), reg.host+"/app:1", nil)
	if f := fault.Of(err); f.Code != "disk_full" || f.Advice == "" {
		t.Errorf("error is %v", err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, "size=32m"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Prepare(t.Context(), reg.host+"/app:1", nil); err != nil {
		t.Errorf("with room: %v", err)
	}
}

func TestImportAndPrune(t *testing.T) {
	reg := newRegistry(t)
	reg.push(t, "a:1", smallImage(t)...)
	reg.push(t, "b:1", append(smallImage(t)[:1], archive(t, item{name: "b", body: "b"}))...)
	dir := t.TempDir()
	s := openWith(t, dir, Options{})
	l := newLayout(t)
	l.index(l.image(append(smallImage(t)[:2], archive(t, item{name: "mine/", kind: tar.TypeDir}))...))
	if _, err := s.Import(t.Context(), l.dir, "Base", nil); fault.Of(err).Kind != fault.KindInvalid {
		t.Errorf("a name that is none: %v", err)
	}
	mine, err := s.Import(t.Context(), l.dir, "base", nil)
	if err != nil {
		t.Fatal(err)
	}
	var b Image
	for _, ref := range []string{"/a:1", "/b:1"} {
		if b, err = s.Prepare(t.Context(), reg.host+ref, nil); err != nil {
			t.Fatal(err)
		}
	}
	// Layers that this process has prepared are kept.
	if got, err := s.Prune(t.Context(), PruneOptions{}); err != nil || len(got.Images) != 4 || got.Layers != 0 {
		t.Errorf("pruned %+v, %v", got, err)
	}
	s.release()
	// A machine uses a layer of b, so the layer is kept.
	got, err := s.Prune(t.Context(), PruneOptions{Keep: b.Lower[1:2]})
	if err != nil || got.Layers == 0 || got.Bytes == 0 {
		t.Errorf("pruned %+v, %v", got, err)
	}
	for _, dir := range append(mine.Lower[1:], b.Lower[1]) {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("it removed what is needed: %v", err)
		}
	}
	list, err := s.List()
	if err != nil || len(list) != 2 || list[0].Name != "local:base" || s.Size(list[0]) == 0 {
		t.Errorf("it lists %+v, %v", list, err)
	}
	if _, err := s.Prepare(t.Context(), "local:base", nil); err != nil {
		t.Error(err)
	}
	// From now on the name refers to another image, but the pinned name does not.
	other := newLayout(t)
	other.index(other.image(smallImage(t)...))
	if img, err := s.Import(t.Context(), other.dir, "base", nil); err != nil || img.Digest == mine.Digest {
		t.Errorf("imported again: %s, %v", img.Digest, err)
	}
	if img, err := s.Prepare(t.Context(), mine.Pinned, nil); err != nil || img.Digest != mine.Digest {
		t.Errorf("%s is %s, %v", mine.Pinned, img.Digest, err)
	}
	if got, err := s.Prune(t.Context(), PruneOptions{Keep: []string{mine.Pinned}}); err != nil || len(got.Images) != 0 {
		t.Errorf("pruned %+v, %v", got, err)
	}
	if err := s.Remove("local:base"); err != nil {
		t.Error(err)
	}
	if err := s.Remove("local:base"); fault.Of(err).Kind != fault.KindNotFound {
		t.Errorf("twice: %v", err)
	}
	s.release()
	if _, err := s.Prune(t.Context(), PruneOptions{}); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(filepath.Join(dir, "layers")); len(left) != 0 {
		t.Errorf("left is %v", left)
	}
}

// release unlocks the layers of this process, as its exit would.
func (s *Store) release() {
	for key, h := range s.locks {
		_ = h.lock.Close()
		delete(s.locks, key)
	}
}

// TestPruneWhilePreparing prunes and prepares concurrently. A prepared layer
// must never be removed.
func TestPruneWhilePreparing(t *testing.T) {
	l := newLayout(t)
	l.index(l.image(smallImage(t)...))
	dir := t.TempDir()
	pruner := openWith(t, dir, Options{})
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			if _, err := pruner.Prune(ctx, PruneOptions{}); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	})
	for range 50 {
		s := openWith(t, dir, Options{})
		img, err := s.Prepare(t.Context(), "oci:"+l.dir, nil)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, d := range img.Lower {
			if _, err := os.Stat(d); err != nil {
				t.Error(err)
			}
		}
		s.release()
	}
	stop()
	wg.Wait()
}

// TestPruneWhatThisProcessHolds checks that only those layers are removed that
// this process last used long ago.
func TestPruneWhatThisProcessHolds(t *testing.T) {
	l := newLayout(t)
	l.index(l.image(smallImage(t)...))
	s := openWith(t, t.TempDir(), Options{})
	name := "oci:" + l.dir
	img, err := s.Prepare(t.Context(), name, nil)
	if err != nil {
		t.Fatal(err)
	}
	own := s.LayersOf(img)
	ago := func(d time.Duration) {
		t.Helper()
		records, err := s.List()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			if err := os.Chtimes(s.recordPath(r.Name), time.Now(), time.Now().Add(-d)); err != nil {
				t.Fatal(err)
			}
		}
		for key, h := range s.locks {
			h.last = time.Now().Add(-d)
			s.locks[key] = h
		}
	}
	here := func(dir string) bool {
		_, err := os.Stat(dir)
		return err == nil
	}
	for _, c := range []struct {
		ago, unused time.Duration
		keep        []string
		stays       bool
	}{
		{30 * time.Minute, 0, nil, true}, // a machine being created may not be recorded yet
		{2 * time.Hour, 3 * time.Hour, nil, true},
		{2 * time.Hour, time.Hour, []string{img.Pinned}, true},
		{2 * time.Hour, time.Hour, own, true},
		{2 * time.Hour, time.Hour, nil, false},
	} {
		if img, err = s.Prepare(t.Context(), name, nil); err != nil {
			t.Fatal(err)
		}
		ago(c.ago)
		if _, err := s.Prune(t.Context(), PruneOptions{Unused: c.unused, Keep: c.keep}); err != nil {
			t.Fatal(err)
		}
		for _, dir := range own {
			if here(dir) != c.stays {
				t.Errorf("%+v: the layer is there: %v", c, here(dir))
			}
		}
	}
	if img, err = s.Prepare(t.Context(), name, nil); err != nil || !here(img.Lower[0]) || !here(own[0]) {
		t.Errorf("it is not made again: %v", err)
	}
}
