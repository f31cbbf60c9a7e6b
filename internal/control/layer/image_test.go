package layer

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"aloft/internal/control/image"
	"aloft/internal/need"
)

// TestExportImage checks that export and import of an image preserve its files,
// the deletions in its upper layer, and its process configuration.
func TestExportImage(t *testing.T) {
	need.Root(t)
	lower, upper := t.TempDir(), t.TempDir()
	for path, text := range map[string]string{
		filepath.Join(lower, "bin/sh"): "#!", filepath.Join(lower, "etc/kept"): "kept", filepath.Join(lower, "etc/gone"): "gone", filepath.Join(upper, "etc/new"): "new",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mknod(filepath.Join(upper, "etc/gone"), unix.S_IFCHR, 0); err != nil {
		t.Fatal(err)
	}
	config := image.Config{User: "1000:1000", Env: []string{"A=b"}, WorkingDir: "/app"}
	dir := filepath.Join(t.TempDir(), "layout")
	digest, err := ExportImage(t.Context(), []string{upper, lower}, config, dir, "12")
	if err != nil {
		t.Fatal(err)
	}
	images, err := image.Open(t.TempDir(), image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	img, err := images.Import(t.Context(), dir+":12", "again", nil)
	if err != nil || img.Digest != digest || img.Config.User != config.User || img.Config.WorkingDir != config.WorkingDir || len(img.Config.Env) != 1 {
		t.Fatalf("it is %+v, %v; want the digest %s", img, err, digest)
	}
	own := images.LayersOf(img)
	if len(own) != 2 {
		t.Fatalf("it has the layers %v", own)
	}
	for path, want := range map[string]string{filepath.Join(own[0], "etc/new"): "new", filepath.Join(own[1], "etc/kept"): "kept", filepath.Join(own[1], "bin/sh"): "#!"} {
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v", path, got, err)
		}
	}
	var st unix.Stat_t
	if err := unix.Lstat(filepath.Join(own[0], "etc/gone"), &st); err != nil || !isWhiteout(&syscall.Stat_t{Mode: st.Mode, Rdev: st.Rdev}) {
		t.Errorf("what its upper layer takes away is there: %+v, %v", st, err)
	}
}
