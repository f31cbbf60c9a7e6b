// Package image turns the name of an image into directories that an overlay can
// be mounted from. It supports the names "host" (the host's own programs and
// packages), "rootfs:DIR" (a tree on disk), "oci:DIR" or "oci:DIR:TAG" (an OCI
// image layout), "local:NAME" (an imported image), and references to images in
// a registry: debian:12, ghcr.io/team/app@sha256:…. Machines of any image have
// the user ubuntu, /workspace, a sudoers file and the host's CA bundle.
//
// Unpacked and generated layers are kept in one data folder, named by the
// digest of their content, created once, shared, and never changed. A record
// per name lists its layers and when it was last used. Layers that no record,
// machine or running process needs are garbage (see [Store.Prune]). This
// package mounts nothing; the runtime does.
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
	"aloft/internal/control/image/unpack"
)

// An Image is a root file system that can be mounted.
type Image struct {
	Lower  []string // directories of the layers, topmost first
	Views  []string // top-level directories of the host, without the slash; each is the layer below the directories of this name in Lower
	Binds  []Bind   // directories of the host to bind read-only
	Pinned string   // a name for [Store.Prepare] that always means this content; saved layers record it
	Digest string   // identifies the content; "" if unknown (host, rootfs:)
	Config Config   // configuration of the image's processes
}

// Config is the part of an image's configuration that machines use.
type Config struct {
	User       string   // default user of processes: name or uid, optionally :group; "" means root
	Env        []string // NAME=value
	WorkingDir string   // absolute, or ""
}

// A Bind is a bind mount of a directory of the host.
type Bind struct {
	Source string // absolute, on the host
	Target string // absolute, in the machine
}

// Options are the settings of a [Store].
type Options struct {
	Registry registry.Config // credentials, and hosts without TLS
	// Recheck is how long the meaning of a tag is cached. After that, the store
	// asks the registry again. 0 means to ask every time. A digest is never
	// rechecked.
	Recheck time.Duration
	// MaxBytes is the maximum unpacked size of all layers of one image, including
	// a charge per file. 0 means no limit; a negative value means half of the
	// file system.
	MaxBytes int64
}

// A Store keeps layers in one folder. Its methods are safe for concurrent use,
// including by several processes on one folder.
type Store struct {
	dir      string
	opts     Options
	registry *registry.Client
	unpacker *unpack.Unpacker

	mu   sync.Mutex
	host *Image       // cached for the life of the process
	room func() error // see SetRoom

	holding sync.Mutex
	locks   map[string]heldLayer // locks on the layers handed out, by key
}

// Open returns the store on dir, and creates the folder if needed.
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
	s := &Store{dir: dir, opts: opts, registry: registry.New(opts.Registry), unpacker: unpack.New(dir), locks: map[string]heldLayer{}}
	if err := s.sweep(); err != nil {
		return nil, fmt.Errorf("image store: %w", err)
	}
	return s, nil
}

// Unconfined returns nil if layers are unpacked by confined processes, or why
// this process unpacks them itself.
func (s *Store) Unconfined() error { return s.unpacker.Unconfined() }

// localPrefix is the name prefix of imported images.
const localPrefix = "local:"

// ociPrefix is the name prefix of OCI layouts.
const ociPrefix = "oci:"

// errReference is wrapped by errors about invalid image names.
var errReference = errors.New(`an image is "host", "rootfs:DIR" or "oci:DIR[:TAG]" with DIR an absolute path, "local:NAME", or a reference such as debian:12 or ghcr.io/team/app:1.2`)

// Prepare makes an image ready to be mounted: it pulls and unpacks missing
// layers. Later calls cost only a few file reads. progress, unless nil,
// receives progress reports from one goroutine at a time. The layers stay as
// long as this process, a machine or a record needs them.
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
	case strings.HasPrefix(name, hostOf):
		return s.prepareHostOf(ctx, name)
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

// Has reports whether an imported or built image is available. If so, it is
// protected from removal until this process ends.
func (s *Store) Has(name string) bool {
	_, ok := s.find(name)
	return ok
}
