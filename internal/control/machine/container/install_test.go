package container

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
)

func TestInstall(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "programs")
	fsys := fstest.MapFS{
		"pod-daemon": {Data: []byte("pod")},
		"runc":       {Data: []byte("runc")},
		"README":     {Data: []byte("not a program")},
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			in, err := Install(fsys, dir)
			if err != nil {
				t.Error(err)
				return
			}
			if data, err := os.ReadFile(in.Runc); err != nil || string(data) != "runc" {
				t.Errorf("runc is %q, %v", data, err)
			}
		})
	}
	wg.Wait()
	first, err := Install(fsys, dir)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(first.Dir, "pod-daemon"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o755 {
		t.Errorf("mode is %v", info.Mode())
	}

	fsys["pod-daemon"] = &fstest.MapFile{Data: []byte("pod, newer")}
	delete(fsys, "runc")
	second, err := Install(fsys, dir)
	if err != nil {
		t.Fatal(err)
	}
	if second.Dir == first.Dir || second.Runc != "" {
		t.Errorf("other programs went to %+v, the first to %+v", second, first)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 2 {
		t.Errorf("it leaves %v", entries)
	}
}

func TestInstallCompressed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "programs")
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	if _, err := zip.Write(bytes.Repeat([]byte("pod"), 1000)); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	fsys := fstest.MapFS{"pod-daemon.gz": {Data: packed.Bytes()}, "runc": {Data: []byte("runc")}}
	in, err := Install(fsys, dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"pod-daemon": strings.Repeat("pod", 1000), "runc": "runc"} {
		path := filepath.Join(in.Dir, name)
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s has %d bytes, %v", name, len(got), err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}

	fsys["pod-daemon.gz"] = &fstest.MapFile{Data: packed.Bytes()[:packed.Len()-4]}
	if in, err := Install(fsys, dir); err == nil {
		t.Errorf("a truncated program was installed in %s", in.Dir)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("a truncated program left %v, %v", entries, err)
	}
}

func TestInstallNothing(t *testing.T) {
	if _, err := Install(fstest.MapFS{}, t.TempDir()); err == nil {
		t.Error("nothing to install is no error")
	}
}
