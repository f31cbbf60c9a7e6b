package server

import (
	"path/filepath"

	"aloft/internal/control/image"
	"aloft/internal/control/image/registry"
	"aloft/internal/control/machine/container"
)

// OpenImages opens the image store of the server on a data folder.
func OpenImages(data string, c Config, named ...string) (*image.Store, error) {
	from := c.registry()
	for _, name := range named {
		if host, ok := registry.Host(name); ok {
			from.Named = append(from.Named, host)
		}
	}
	return image.Open(container.ImageDir(MachinesDir(data)), image.Options{Registry: from, Recheck: c.Images.recheck(), MaxBytes: c.Machine.DiskBytes})
}

// MachinesDir returns the folder of machines in a data folder.
func MachinesDir(data string) string { return filepath.Join(data, "machines") }
