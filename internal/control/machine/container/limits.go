package container

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"aloft/internal/control/machine"
)

// A machine's cgroup bounds all that runs for it, and is out of its reach: the
// machine and its gateway are in children of it. Were the machine to lift the
// limits of its own cgroup, those of the parent would hold.
const (
	insideCgroup = "machine"
	egressCgroup = "egress"
)

// What a machine's gateway may use beside the machine's own limits. The limit of
// memory is above the size that package egress keeps the process below.
var egressLimits = machine.Limits{MemoryBytes: 768 << 20, CPUs: 1, PIDs: 128}

// inside names the cgroup of the machine's own processes.
func (m *Machine) inside() string { return filepath.Join(m.cgroup, insideCgroup) }

// makeCgroups makes the machine's cgroup and the one of its gateway, with their
// limits. The OCI runtime makes the third, in which the machine is.
func (m *Machine) makeCgroups(l machine.Limits) error {
	all, err := mountedHierarchies()
	if err != nil {
		return err
	}
	for _, h := range all {
		if err := h.limit(m.cgroup, plus(l, egressLimits)); err != nil {
			return fmt.Errorf("cgroup %s: %w", m.cgroup, err)
		}
		if err := h.limit(filepath.Join(m.cgroup, egressCgroup), egressLimits); err != nil {
			return fmt.Errorf("cgroup %s: %w", m.cgroup, err)
		}
	}
	return nil
}

// plus adds limits; what has none in l has none.
func plus(l, more machine.Limits) machine.Limits {
	if l.MemoryBytes > 0 {
		l.MemoryBytes += more.MemoryBytes
	}
	if l.CPUs > 0 {
		l.CPUs += more.CPUs
	}
	if l.PIDs > 0 {
		l.PIDs += more.PIDs
	}
	return l
}

// enterEgress puts a process into the cgroup of the machine's gateway.
func (m *Machine) enterEgress(pid int) error {
	all, err := mountedHierarchies()
	if err != nil {
		return err
	}
	for _, h := range all {
		if len(h.limited()) == 0 {
			continue
		}
		err := h.write(filepath.Join(m.cgroup, egressCgroup), "cgroup.procs", strconv.Itoa(pid))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a machine that an older server has started has none
			return err
		}
	}
	return nil
}

// limited are the controllers of the hierarchy that limit machines.
func (h hierarchy) limited() (out []string) {
	for _, c := range []string{"memory", "pids", "cpu"} {
		if h.has(c) {
			out = append(out, c)
		}
	}
	return out
}

// limit makes a cgroup with limits, where the hierarchy has their controllers.
func (h hierarchy) limit(name string, l machine.Limits) error {
	has := h.limited()
	if len(has) == 0 {
		return nil
	}
	if h.v2 { // the parent gives its controllers to its children
		for _, c := range has {
			if err := h.write(filepath.Dir(name), "cgroup.subtree_control", "+"+c); err != nil {
				return err
			}
		}
	}
	if err := os.Mkdir(filepath.Join(h.dir, name), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	for _, c := range has {
		for _, f := range h.files(c, l) {
			// The kernel may count no swap.
			if err := h.write(name, f.name, f.value); err != nil && !(f.optional && errors.Is(err, fs.ErrNotExist)) {
				return err
			}
		}
	}
	return nil
}

type limitFile struct {
	name, value string
	optional    bool
}

// files are the files of a controller that hold the limits.
func (h hierarchy) files(controller string, l machine.Limits) []limitFile {
	const period = 100_000 // microseconds
	memory, quota := strconv.FormatInt(l.MemoryBytes, 10), int64(l.CPUs*period)
	switch {
	case controller == "memory" && l.MemoryBytes > 0 && h.v2:
		return []limitFile{{"memory.max", memory, false}, {"memory.swap.max", "0", true}}
	case controller == "memory" && l.MemoryBytes > 0:
		return []limitFile{{"memory.limit_in_bytes", memory, false}, {"memory.memsw.limit_in_bytes", memory, true}}
	case controller == "pids" && l.PIDs > 0:
		return []limitFile{{"pids.max", strconv.FormatInt(l.PIDs, 10), false}}
	case controller == "cpu" && l.CPUs > 0 && h.v2:
		return []limitFile{{"cpu.max", fmt.Sprintf("%d %d", quota, period), false}}
	case controller == "cpu" && l.CPUs > 0:
		return []limitFile{{"cpu.cfs_period_us", strconv.Itoa(period), false}, {"cpu.cfs_quota_us", strconv.FormatInt(quota, 10), false}}
	}
	return nil
}

// write writes a file of a cgroup, which is there already.
func (h hierarchy) write(group, name, value string) error {
	path := filepath.Join(h.dir, group, name)
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}
