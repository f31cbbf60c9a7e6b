package debian

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"aloft/internal/control/image"
	"aloft/internal/need"
)

// tiny describes a minimal Debian: one package from a repository that the test
// creates, and a setup script.
func tiny(t *testing.T) Options {
	t.Helper()
	need.Root(t)
	need.Command(t, "mmdebstrap")
	need.Command(t, "dpkg-deb")
	need.Command(t, "dpkg-scanpackages")
	repo := t.TempDir()
	for name, text := range map[string]string{
		"tiny/DEBIAN/control": "Package: tiny\nVersion: 1.0\nArchitecture: all\nMaintainer: A <a@example.com>\nDescription: a shell\n",
		"tiny/bin/sh":         "#!\n",
	} {
		path := filepath.Join(repo, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// apt's own user must be able to read the repository.
	for dir := repo; strings.HasPrefix(dir, os.TempDir()) && dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("sh", "-ec", "dpkg-deb --build tiny . >&2; dpkg-scanpackages . >Packages")
	cmd.Dir = repo
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return Options{
		Suite: "bookworm", Variant: "extract", Packages: []string{"tiny=1.0"}, Time: time.Unix(1_700_000_000, 0),
		Mirrors: []string{"deb [trusted=yes] copy://" + repo + " ./"},
		Setup:   []byte("#!/bin/sh\nset -eu\necho made >\"$1/made\"\n"),
	}
}

// TestBuild builds the same image twice, compares the digests and prepares the
// image.
func TestBuild(t *testing.T) {
	o := tiny(t)
	var digests []string
	for range 2 {
		dir := filepath.Join(t.TempDir(), "layout")
		var said []string
		if err := Build(t.Context(), dir, o, func(line string) { said = append(said, line) }); err != nil {
			t.Fatalf("%v\n%s", err, strings.Join(said, "\n"))
		}
		s, err := image.Open(t.TempDir(), image.Options{})
		if err != nil {
			t.Fatal(err)
		}
		img, err := s.Import(t.Context(), dir, "base", nil)
		if err != nil {
			t.Fatal(err)
		}
		if data, err := os.ReadFile(filepath.Join(img.Lower[1], "made")); err != nil || string(data) != "made\n" {
			t.Errorf("the script's file is %q, %v", data, err)
		}
		if info, err := os.Stat(filepath.Join(img.Lower[1], "made")); err != nil || info.ModTime().After(o.Time) {
			t.Errorf("it is of %v, %v", info.ModTime(), err)
		}
		if img.Config.User != "ubuntu" {
			t.Errorf("configuration is %+v", img.Config)
		}
		digests = append(digests, img.Digest)
		var index struct{ Manifests []descriptor }
		data, err := os.ReadFile(filepath.Join(dir, "index.json"))
		if err != nil || json.Unmarshal(data, &index) != nil || len(index.Manifests) != 1 {
			t.Errorf("index is %s, %v", data, err)
		}
	}
	if digests[0] != digests[1] {
		t.Errorf("twice the same is %v", digests)
	}
}

// TestPackagesAreDownloadedOnce builds twice from a mirror and counts requests.
// If a package in the cache is damaged, one build fails and the next downloads
// the package again.
func TestPackagesAreDownloadedOnce(t *testing.T) {
	o := tiny(t)
	repo := strings.TrimSuffix(strings.TrimPrefix(o.Mirrors[0], "deb [trusted=yes] copy://"), " ./")
	var downloads atomic.Int32
	files := http.FileServer(http.Dir(repo))
	mirror := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".deb") {
			downloads.Add(1)
		}
		files.ServeHTTP(w, r)
	}))
	defer mirror.Close()
	o.Mirrors, o.Cache = []string{"deb [trusted=yes] " + mirror.URL + " ./"}, filepath.Join(t.TempDir(), "packages")
	build := func() error {
		return Build(t.Context(), filepath.Join(t.TempDir(), "layout"), o, func(line string) { t.Log(line) })
	}
	for range 2 {
		if err := build(); err != nil {
			t.Fatal(err)
		}
	}
	if n := downloads.Load(); n != 1 {
		t.Errorf("the package was downloaded %d times", n)
	}
	kept, err := filepath.Glob(filepath.Join(o.Cache, "*.deb"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("kept are %v, %v", kept, err)
	}
	data, err := os.ReadFile(kept[0])
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(kept[0], data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := build(); err == nil || !strings.Contains(err.Error(), "build again") {
		t.Errorf("with a damaged package: %v", err)
	}
	if err := build(); err != nil {
		t.Errorf("after it was removed: %v", err)
	}
	if n := downloads.Load(); n != 2 {
		t.Errorf("the package was downloaded %d times", n)
	}
}

func TestBuildFails(t *testing.T) {
	o := tiny(t)
	o.Packages = []string{"absent"}
	dir := t.TempDir()
	err := Build(t.Context(), filepath.Join(dir, "layout"), o, func(string) {})
	if err == nil || !strings.Contains(err.Error(), "absent") {
		t.Errorf("error is %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left is %v", left)
	}
}

func TestPackages(t *testing.T) {
	got, err := ParsePackages("# list\ngit\n\n  g++ # compiler\nlibc6:amd64=2.36-9+deb12u1\n")
	if err != nil || strings.Join(got, " ") != "git g++ libc6:amd64=2.36-9+deb12u1" {
		t.Errorf("got %v, %v", got, err)
	}
	for _, bad := range []string{"-o", "a b", "?essential", "a,b", "a/b", "~i"} {
		if got, err := ParsePackages(bad); err == nil {
			t.Errorf("%q is %v", bad, got)
		}
	}
	got, err = Lock([]string{"git", "jq=1"}, []byte("git=2.39\njq=1.6\nlibc6=2.36\n"))
	if err != nil || strings.Join(got, " ") != "git=2.39 jq=1.6" {
		t.Errorf("locked %v, %v", got, err)
	}
	if _, err := Lock([]string{"absent"}, nil); err == nil {
		t.Error("a package that the lock lacks is no error")
	}
}

func FuzzParsePackages(f *testing.F) {
	f.Add("git\n# x\na=1")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParsePackages(text)
		for _, p := range got {
			if err == nil && (p == "" || p[0] == '-' || strings.ContainsAny(p, ", \t/?")) {
				t.Errorf("%q is taken for a package", p)
			}
		}
	})
}

// TestInterruptedBuildKeepsTheHostsFiles interrupts a build that has mounted a
// folder of the host in its tree. Removing the tree must not remove that
// folder's files.
func TestInterruptedBuildKeepsTheHostsFiles(t *testing.T) {
	o := tiny(t)
	host := t.TempDir()
	kept := filepath.Join(host, "kept")
	if err := os.WriteFile(kept, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o.Setup = []byte("#!/bin/sh\nset -eu\nmkdir \"$1/bound\"\nmount --bind " + host + " \"$1/bound\"\necho mounted\nkill -9 0\n")
	mounted := false
	err := Build(t.Context(), filepath.Join(t.TempDir(), "layout"), o, func(line string) { mounted = mounted || line == "mounted" })
	if err == nil || !mounted {
		t.Fatalf("the build was not interrupted after the mount: %v, %v", mounted, err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("the host's file is gone: %v", err)
	}
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(mounts), "/bound ") {
		t.Errorf("the host sees the build's mount: %v", err)
	}
}
