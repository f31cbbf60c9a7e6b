// Package image turns the name of an image into directories that an overlay
// can be mounted from. It knows these kinds: "host" (the host's /usr under a
// fresh root), "rootfs:DIR" (a tree on disk), "oci:DIR" or "oci:DIR:TAG" (an
// OCI image layout), "local:NAME" (what was imported under that name), and
// everything else is the reference of an image in a registry: debian:12,
// ghcr.io/team/app@sha256:…. Every machine made from any of them has the user
// ubuntu, /workspace, a sudoers file and the host's CA bundle.
//
// What is unpacked or generated is kept below one data folder, named by the
// digest of its content, made once, shared, and never changed afterwards. A
// record of each name says which layers it is, and when it was last used: what
// no record, machine or living process needs is garbage (see [Store.Prune]).
// This package mounts nothing: that is the runtime's part.
package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"aloft/internal/control/image/registry"
)

// An Image is a root file system that can be mounted.
type Image struct {
	Lower  []string // directories of the layers, topmost first
	Binds  []Bind   // directories of the host to show read-only in it
	Pinned string   // a name for [Store.Prepare] that means this content for ever; what stands on an image remembers it by this one
	Digest string   // names its content: the same digest, the same files; "" where that is not known (host, rootfs:)
	Config Config   // what it says of processes in it
}

// Config is the part of an image's configuration that machines heed.
type Config struct {
	User       string   // who processes run as, by default: name or uid, maybe :group; "" is root
	Env        []string // NAME=value
	WorkingDir string   // absolute, or ""
}

// A Bind is a directory of the host and where the machine sees it.
type Bind struct {
	Source string // absolute, on the host
	Target string // absolute, in the machine
}

// Options are what a [Store] is made of beside its folder.
type Options struct {
	Registry registry.Config // credentials, and hosts without TLS
	// Recheck is how long a tag is taken to mean what it meant when the registry
	// was last asked. 0 asks each time; digests are never asked for again.
	Recheck time.Duration
	// MaxBytes is what all layers of one image may unpack to, files counted too; 0
	// is no limit, and less is half of the file system.
	MaxBytes int64
}

// A Store keeps layers below one folder. Its methods are safe for concurrent
// use, also by several processes on the same folder.
type Store struct {
	dir      string
	opts     Options
	registry *registry.Client

	mu   sync.Mutex
	host *Image       // kept for the life of the process once it is made
	room func() error // see SetRoom

	holding sync.Mutex
	held    map[string]held // what locks the layers given out, by key
}

// Open returns the store on dir, which it makes if it is not there.
func Open(dir string, opts Options) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("image store: %w", err)
	}
	for _, d := range []string{"layers", "blobs", "records"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			return nil, fmt.Errorf("image store: %w", err)
		}
	}
	if opts.MaxBytes < 0 {
		var fs unix.Statfs_t
		if err := unix.Statfs(dir, &fs); err != nil {
			return nil, fmt.Errorf("image store: %w", err)
		}
		opts.MaxBytes = int64(fs.Blocks) * fs.Bsize / 2
	}
	s := &Store{dir: dir, opts: opts, registry: registry.New(opts.Registry), held: map[string]held{}}
	if err := s.sweep(); err != nil {
		return nil, fmt.Errorf("image store: %w", err)
	}
	return s, nil
}

// localPrefix begins the names of images that were imported.
const localPrefix = "local:"

// ociPrefix begins the names of layouts.
const ociPrefix = "oci:"

// errReference is the advice that ends the error for a name that is no image.
var errReference = errors.New(`an image is "host", "rootfs:DIR" or "oci:DIR[:TAG]" with DIR an absolute path, "local:NAME", or a reference such as debian:12 or ghcr.io/team/app:1.2`)

// Prepare makes the named image ready to be mounted: pulls what a registry has
// to give and unpacks what is not unpacked. The first time it may take as long
// as that takes; after that it costs a few file reads. progress, unless nil, is
// told how far it is, by one goroutine at a time. The layers stay for as long as
// this process lives, or a machine or record needs them.
func (s *Store) Prepare(ctx context.Context, name string, progress func(Progress)) (Image, error) {
	img, err := s.prepare(ctx, name, newTeller(name, progress))
	if err != nil {
		return Image{}, fmt.Errorf("image %q: %w", name, diskFull(err))
	}
	return img, nil
}

func (s *Store) prepare(ctx context.Context, name string, tell *teller) (Image, error) {
	kind, rest, _ := strings.Cut(name, ":")
	switch {
	case name == "host":
		return s.prepareHost(ctx)
	case kind == "rootfs" && filepath.IsAbs(rest):
		return s.prepareRootfs(ctx, filepath.Clean(rest))
	case kind == "oci" && filepath.IsAbs(rest):
		if r, ok := s.find(name); ok && strings.HasSuffix(name, "@"+r.Digest) {
			return s.image(ctx, r)
		}
		return s.prepareOCI(ctx, name, rest, tell)
	case name == "", kind == "rootfs", kind == "oci", strings.HasSuffix(name, ":"):
		return Image{}, errReference
	case kind == "local":
		return s.prepareLocal(ctx, name)
	}
	ref, err := s.registry.Parse(name)
	if err != nil {
		return Image{}, fmt.Errorf("%w: %w", errReference, err)
	}
	return s.prepareRemote(ctx, ref, tell)
}

// Has reports whether an image that was imported or built is here. Until this
// process ends it stays.
func (s *Store) Has(name string) bool {
	_, ok := s.find(name)
	return ok
}
