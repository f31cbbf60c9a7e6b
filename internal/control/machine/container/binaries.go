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

// binaryPaths maps each of our programs to its path in a machine.
var binaryPaths = map[string]string{
	"pod-daemon":  "/pod-daemon",
	"exec-daemon": "/exec-daemon/exec-daemon",
	"sandbox":     "/exec-daemon/sandbox",
	"rg":          "/exec-daemon/rg",
}

// makeBinaries creates the layer that holds the programs of conf.Binaries. It
// is mounted above the image's layers, so that no image can replace them.
//
// ripgrep comes from the folder conf.Binaries or, if statically linked, from
// the host. If both lack ripgrep, there is no /exec-daemon/rg, and exec-daemon
// uses the rg on PATH (with the image "host", the host's own).
func (r *Runtime) makeBinaries() (string, error) {
	files := map[string]string{}
	for name, place := range binaryPaths {
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

// isStatic reports whether a program is statically linked.
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

// binaryLayer builds the layer of binaries on first use. A failure is not
// cached, because the disk may have free space when the next machine is
// created.
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
