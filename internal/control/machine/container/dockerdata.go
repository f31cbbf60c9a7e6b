package container

import (
	"context"
	"errors"
	"fmt"

	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"aloft/internal/control/layer"
)

// The data of a machine's Docker is in its own folder next to the upper layer,
// because Docker's storage driver needs a file system that is not an overlay.
// Layers contain the data as an archive: a machine that starts from a layer
// unpacks a copy of it.
const (
	dockerData    = "docker"              // the folder, inside the machine's folder
	dockerArchive = "run/docker-data.tar" // the archive in a layer, hidden in machines by the tmpfs at /run
)

// makeDockerData creates the folder of the machine's Docker data, unless it
// exists. The new folder has the data that the layers below the machine
// contain.
func (m *Machine) makeDockerData(ctx context.Context, rec record) error {
	if _, err := os.Lstat(m.path(dockerData)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	half := m.path(dockerData + ".new")
	if err := os.RemoveAll(half); err != nil {
		return err
	}
	if err := os.Mkdir(half, 0o710); err != nil {
		return err
	}
	if archive := rec.openDockerArchive(); archive != nil {
		err := m.r.layers.Unpack(ctx, archive, half)
		if err := errors.Join(err, archive.Close()); err != nil {
			return fmt.Errorf("unpack the saved data: %w", err)
		}
		if err := refuseDevices(half); err != nil {
			return fmt.Errorf("the saved data: %w", err)
		}
	}
	return os.Rename(half, m.path(dockerData))
}

// refuseDevices returns an error if dir contains a device file other than the
// whiteouts of overlays. A hostile archive may contain some.
func refuseDevices(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeDevice == 0 {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return &os.PathError{Op: "lstat", Path: path, Err: err}
		}
		if st.Rdev != 0 {
			return fmt.Errorf("it contains the device file %q", d.Name())
		}
		return nil
	})
}

// openDockerArchive opens the archive of the topmost layer that has an archive,
// or returns nil.
func (rec record) openDockerArchive() *os.File {
	for _, dir := range rec.lower() {
		if f, err := openIn(dir, dockerArchive, unix.O_RDONLY|unix.O_NONBLOCK); err == nil {
			return f
		}
	}
	return nil
}

// packDockerData writes the machine's Docker data into its upper layer, which is
// about to be frozen. The machine must not be running.
func (m *Machine) packDockerData(ctx context.Context, rec record) error {
	entries, err := os.ReadDir(m.path(dockerData))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		below := rec.openDockerArchive()
		if below == nil {
			return nil // Docker was never started
		}
		_ = below.Close()
	}
	root, err := os.OpenRoot(m.path("upper"))
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	// The machine cannot write to this folder of the upper layer, because its /run
	// is a tmpfs.
	if err := root.RemoveAll(filepath.Dir(dockerArchive)); err != nil {
		return err
	}
	if err := root.Mkdir(filepath.Dir(dockerArchive), 0o755); err != nil {
		return err
	}
	f, err := root.OpenFile(dockerArchive, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = errors.Join(layer.Pack(ctx, f, m.path(dockerData)), f.Close())
	if err != nil {
		err = errors.Join(err, root.Remove(dockerArchive))
	}
	return err
}
