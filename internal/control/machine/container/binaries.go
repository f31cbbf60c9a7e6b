package container

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// binaryPlaces says where each of our programs stands in a machine.
var binaryPlaces = map[string]string{
	"pod-daemon":  "/pod-daemon",
	"exec-daemon": "/exec-daemon/exec-daemon",
	"sandbox":     "/exec-daemon/sandbox",
	"rg":          "/exec-daemon/rg",
}

// makeBinaries makes the layer that holds the programs of conf.Binaries. It
// lies above the image's layers, so no image can put others in their place.
//
// ripgrep comes from that folder, or else from the host, if it is linked
// statically; without it there is no /exec-daemon/rg, and exec-daemon takes the
// rg that it finds on PATH (on the image host, the host's own).
func (r *Runtime) makeBinaries() (string, error) {
	files := map[string]string{}
	for name, place := range binaryPlaces {
		path := filepath.Join(r.conf.Binaries, name)
		_, err := os.Stat(path)
		switch {
		case err == nil:
			files[place] = path
		case !errors.Is(err, fs.ErrNotExist):
			return "", err
		case name == "pod-daemon":
			return "", fmt.Errorf("no pod-daemon in %s", r.conf.Binaries)
		case name == "rg" && isStatic("/usr/bin/rg"):
			files[place] = "/usr/bin/rg"
		}
	}
	return r.images.Generated(context.Background(), files)
}

// isStatic says whether a program runs without libraries of its host.
func isStatic(path string) bool {
	f, err := elf.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return false
		}
	}
	return true
}

// binaryLayer is the layer that holds the binaries, made when it is first
// needed. A failure is not kept: the next machine may find room on the disk.
type binaryLayer struct {
	mu   sync.Mutex
	made string
}

func (b *binaryLayer) path(make func() (string, error)) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.made != "" {
		return b.made, nil
	}
	var err error
	b.made, err = make()
	return b.made, err
}
