// Package image turns the name of an image into directories that an overlay
// can be mounted from. It knows three kinds: "host" (the host's /usr under a
// fresh root), "rootfs:DIR" (a tree on disk) and "oci:DIR" or "oci:DIR:TAG" (an
// OCI image layout). Every machine made from any of them has the user ubuntu,
// /workspace, a sudoers file and the host's CA bundle.
//
// What is unpacked or generated is kept below one data folder, named by the
// digest of its content, made once and never changed afterwards. This package
// mounts nothing: that is the runtime's part.
package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// An Image is a root file system that can be mounted.
type Image struct {
	Lower []string // directories of the layers, topmost first
	Binds []Bind   // directories of the host to show read-only in it
}

// A Bind is a directory of the host and where the machine sees it.
type Bind struct {
	Source string // absolute, on the host
	Target string // absolute, in the machine
}

// A Store keeps layers below one folder. Its methods are safe for concurrent
// use, also by several processes on the same folder.
type Store struct {
	dir string

	mu   sync.Mutex
	host *Image // kept for the life of the process once it is made
}

// Open returns the store on dir, which it makes if it is not there.
func Open(dir string) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("image store: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "layers"), 0o700); err != nil {
		return nil, fmt.Errorf("image store: %w", err)
	}
	s := &Store{dir: dir}
	if err := s.sweep(); err != nil {
		return nil, fmt.Errorf("image store: %w", err)
	}
	return s, nil
}

// errReference is the advice that ends the error for a name that is no image.
var errReference = errors.New(`an image is "host", "rootfs:DIR" or "oci:DIR[:TAG]", with DIR an absolute path`)

// Prepare makes the named image ready to be mounted. The first time it may take
// as long as unpacking takes; after that it costs a few file reads.
func (s *Store) Prepare(ctx context.Context, name string) (Image, error) {
	kind, rest, _ := strings.Cut(name, ":")
	var img Image
	var err error
	switch {
	case name == "host":
		img, err = s.prepareHost(ctx)
	case kind == "rootfs" && filepath.IsAbs(rest):
		img, err = s.prepareRootfs(ctx, filepath.Clean(rest))
	case kind == "oci" && filepath.IsAbs(rest):
		img, err = s.prepareOCI(ctx, rest)
	default:
		err = errReference
	}
	if err != nil {
		return Image{}, fmt.Errorf("image %q: %w", name, err)
	}
	return img, nil
}
