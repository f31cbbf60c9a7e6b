package container

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"aloft/internal/control/layer"
	"aloft/internal/control/machine/container/userns"
)

// Each machine that runs in a user namespace has its own range of the host's user
// ids, which belongs to it only while it runs: see package userns.

// namespacePath returns a path through which any process can enter the
// namespace, until f is closed.
func namespacePath(f *os.File) string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd()) }

// openUserSpace takes a range of ids for the machine and creates its
// namespaces. If the machine's image is on a file system without idmapped
// mounts, it returns an empty Space: the machine then runs without a user
// namespace.
func (m *Machine) openUserSpace(rec record, docker bool) (*userns.Space, error) {
	networks, err := userns.Networks(docker, rec.Spec.Limits.MemoryBytes)
	if err != nil {
		return nil, err
	}
	n, err := m.takeIDs()
	if err != nil {
		return nil, err
	}
	u, err := userns.Open(m.r.conf.RuntimePath, userns.FirstID+n*userns.IDs, networks, rec.Spec.Network.Mode != "")
	if err != nil {
		return nil, err
	}
	if err := rec.canMap(u.Layers); err != nil {
		m.r.log.Warn("a machine runs without a user namespace: root in it is root on the host", "machine", m.id, "reason", err)
		return &userns.Space{}, errors.Join(u.Close(), m.giveIDsBack())
	}
	return u, nil
}

// canMap returns nil if the owners of files in all layers and bind mounts of
// the machine can be mapped.
func (rec record) canMap(ids *os.File) error {
	for _, dir := range rec.lower() {
		if err := layer.CanMap(dir, ids); err != nil {
			return err
		}
	}
	for _, b := range rec.Image.Binds {
		if err := layer.CanMap(b.Source, ids); err != nil {
			return err
		}
	}
	for _, name := range rec.Image.Views {
		if err := layer.CanMap("/"+name, ids); err != nil {
			return err
		}
	}
	return nil
}

// takeIDs takes a range that no other running machine has, and returns the
// range's number. The machine keeps the range until clear returns it.
func (m *Machine) takeIDs() (int, error) {
	if err := m.giveIDsBack(); err != nil {
		return 0, err
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(m.cgroup))
	for i := range userns.Ranges {
		n := int((h.Sum32() + uint32(i)) % userns.Ranges)
		// Write the file before the claim, so that no claim is lost if this
		// process is killed in between.
		if err := os.WriteFile(m.path("ids"), []byte(strconv.Itoa(n)), 0o600); err != nil {
			return 0, err
		}
		err := os.Symlink(m.id, m.r.claimOfIDs(n))
		if err == nil {
			return n, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return 0, err
		}
	}
	return 0, fmt.Errorf("all %d ranges of user ids are taken by running machines", userns.Ranges)
}

// giveIDsBack returns the machine's range of ids, if it has one. No process of
// the machine may be running.
func (m *Machine) giveIDsBack() error {
	data, err := os.ReadFile(m.path("ids"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if n, err := strconv.Atoi(strings.TrimSpace(string(data))); err == nil {
		claim := m.r.claimOfIDs(n)
		if who, err := os.Readlink(claim); err == nil && who == m.id {
			if err := os.Remove(claim); err != nil {
				return err
			}
		}
	}
	return os.Remove(m.path("ids"))
}

// claimOfIDs returns the path of the symbolic link by which a machine claims
// range n. The link's target is the machine's id.
func (r *Runtime) claimOfIDs(n int) string {
	return filepath.Join(r.conf.Dir, "ids", strconv.Itoa(n))
}

// runApart calls do in a new mount namespace. The mounts that do makes are
// invisible to the rest of the host, and end with the processes that it starts.
func (m *Machine) runApart(do func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread stays in the new namespace, so it must end with this goroutine
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			done <- fmt.Errorf("new mount namespace: %w", err)
			return
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			done <- fmt.Errorf("make mounts private: %w", err)
			return
		}
		done <- do()
	}()
	return <-done
}

// rootPoint is where a machine's root file system is mounted, in the mount
// namespace of runApart. It lies outside of the runtime's folders, because root
// in the machine must reach it but may not enter those folders.
func (r *Runtime) rootPoint() string { return filepath.Join(r.rootParent(), "aloft-machine-root") }

// rootParent returns a folder that every host has and everybody may enter.
func (r *Runtime) rootParent() string {
	if strings.HasPrefix(r.conf.Dir+"/", "/run/") || strings.HasPrefix(r.conf.RuntimePath, "/run/") {
		return "/mnt"
	}
	return "/run"
}

// makeRootPoint creates rootPoint. It must be called inside runApart.
func (r *Runtime) makeRootPoint() error {
	if err := unix.Mount("tmpfs", r.rootParent(), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=64k,mode=0755"); err != nil {
		return &os.PathError{Op: "mount", Path: r.rootParent(), Err: err}
	}
	return os.Mkdir(r.rootPoint(), 0o755)
}

// canMap returns nil if machines can have user namespaces on this host, and
// otherwise the reason. To test this, it mounts an overlay with mapped owners
// in dir and writes through it.
func canMap(program, dir string) error {
	ids, err := userns.Try(program)
	if err != nil {
		return err
	}
	defer func() { _ = ids.Close() }()
	return inOverlay(dir, func(root, lower, upper, work string) error {
		return layer.MountMapped(root, []string{lower}, upper, work, ids)
	}, func(root string) error {
		// Changing the mode makes the overlay copy the file up. The copy must
		// keep its owner and must be removable.
		file := filepath.Join(root, "file")
		if err := os.Chmod(file, 0o640); err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Stat(file, &st); err != nil {
			return err
		}
		if st.Uid != userns.FirstID {
			return fmt.Errorf("a file of root is shown as one of %d", st.Uid)
		}
		return os.Remove(file)
	})
}
