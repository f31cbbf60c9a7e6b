// Package hostd lets a server that runs as an ordinary user do work that needs
// root's rights. A separate process that runs as root, the host-daemon, does
// this work. It creates machines, unpacks images, builds Dockerfiles, and runs
// git as separate users. The server has a [Client] with the same interfaces as
// the parts that a server of root uses itself.
//
// The host-daemon assumes that an attacker who has taken over the server may
// request anything. So the server passes folders as descriptors that it has
// opened: it cannot name a folder that it cannot reach itself. The host-daemon
// reads its configuration itself.
package hostd

import (
	"context"

	"aloft/internal/control/dockerfile"
	"aloft/internal/control/image"
	"aloft/internal/control/layer"
	"aloft/internal/control/machine"
	"aloft/internal/control/mirror"
	"aloft/internal/policy"
)

// Host holds the interfaces for work that needs root's rights on the host. They
// are safe for concurrent use.
type Host struct {
	Machines    machine.Runtime
	Layers      Layers
	Images      Images
	Dockerfiles Dockerfiles
	Logs        Logs
	// Folders are folders that only root can read, by name: connections, images
	// and build.
	Folders map[string]Folder
	Git     mirror.Host
	// NoMachines says why this host cannot create machines; "" means that it
	// can. If it cannot, Layers, Images and Dockerfiles are nil, and Create
	// fails.
	NoMachines string
	// NoNetwork says why machines cannot have a network; "" means that they
	// can.
	NoNetwork string
	// Close stops the processes that were started for the host. Machines keep
	// running.
	Close func() error
}

// Layers are the saved disks of machines; see [layer.Store].
type Layers interface {
	Layer(id string) (layer.Layer, error)
	List() ([]layer.Layer, error)
	Delete(id string) error
	Size(ctx context.Context, id string) (int64, error)
	Needs() ([]layer.Need, error)
	DiskUsage(ctx context.Context, id string) (bytes, inodes int64, err error)
}

// Folder is a folder whose entries can be measured. Package ledger adds up the
// disk usage.
type Folder interface {
	Entries(ctx context.Context) ([]string, error)
	Usage(ctx context.Context, name string) (bytes, inodes int64, err error)
}

// Images are the images of machines.
type Images interface {
	// Prepare makes an image available, or returns an error that says why it
	// cannot.
	Prepare(ctx context.Context, name string) error
	// Prune removes images that are neither used nor the default; see
	// [image.Store.Prune].
	Prune(ctx context.Context, o image.PruneOptions) (image.Pruned, error)
}

// Dockerfiles builds images of Dockerfiles.
type Dockerfiles interface {
	// Ready returns nil, or a fault that says why images cannot be built and what
	// to do.
	Ready() error
	// Build builds an image and returns the name by which machines refer to it. It
	// passes each line of output to out.
	Build(ctx context.Context, spec dockerfile.Spec, out func(line string)) (image string, err error)
	// Has reports whether an image made by Build still exists.
	Has(image string) bool
	// Running returns the ids of the running builds.
	Running() []string
	// DiskBytes returns how many bytes a running build uses on the disk.
	DiskBytes(ctx context.Context, id string) (int64, error)
	// Stop stops the build with the given id because of its disk use. It
	// reports whether there is such a build.
	Stop(id string, why error) bool
	// Prune removes the engine's cache, unless a build is running.
	Prune(ctx context.Context) error
}

// Logs are the logs of machines' connections; see [egress.Logs].
type Logs interface {
	Read(ctx context.Context, name string) ([]policy.Connection, error)
	Remove(ctx context.Context, name string) error
	List(ctx context.Context) ([]string, error)
}
