package container

import (
	"os"
	"path/filepath"
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

func TestInstallNothing(t *testing.T) {
	if _, err := Install(fstest.MapFS{}, t.TempDir()); err == nil {
		t.Error("nothing to install is no error")
	}
}
