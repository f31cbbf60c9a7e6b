// Package hostd lets a server that runs as an ordinary user use what needs the rights
// of root on its host. A process of root, the host-daemon, keeps them. It creates machines,
// unpacks images, builds Dockerfiles, and runs git as users of its own. The server
// has a [Client] with the same interfaces as the parts that a server of root uses
// itself.
//
// The host-daemon assumes that whoever has taken over the server asks for anything. Folders
// are passed as descriptors that the server has opened, so that it names nothing that
// it cannot reach itself; the configuration is the host-daemon's own.
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

// Host is what a server uses of its host that needs the rights of root. The parts
// are safe for concurrent use.
type Host struct {
	Machines    machine.Runtime
	Layers      Layers
	Images      Images
	Dockerfiles Dockerfiles
	Logs        Logs
	// Folders are folders that only root can read: connections, images and build.
	Folders map[string]Folder
	Git     mirror.Host
	// NoMachines is why this host cannot create machines, or "". If it is not, Layers,
	// Images and Dockerfiles are nil, and Create fails.
	NoMachines string
	// NoNetwork is why machines can have no network, or "".
	NoNetwork string
	// Close stops what was started for the host. Machines keep running.
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

// Folder is a folder whose entries are measured; package ledger adds up what uses the disk.
type Folder interface {
	Entries(ctx context.Context) ([]string, error)
	Usage(ctx context.Context, name string) (bytes, inodes int64, err error)
}

// Images are the images of machines.
type Images interface {
	// Prepare makes an image available, or returns why it cannot.
	Prepare(ctx context.Context, name string) error
	// Prune removes images that are neither used nor the default, as
	// [image.Store.Prune] does; see there.
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
	// Stop stops the build with the id because of its disk use, and reports whether
	// there is such a build.
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
