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

// The machine's cgroup limits everything that runs for the machine and is out
// of its reach. The machine and its egress process are in child cgroups. If the
// machine lifts the limits of its own cgroup, those of the parent still apply.
const (
	insideCgroup = "machine"
	egressCgroup = "egress"
)

// egressLimits is what the machine's egress process may use in addition to the
// machine's own limits. The memory limit is above the one that package egress
// enforces on itself.
var egressLimits = machine.Limits{MemoryBytes: 768 << 20, CPUs: 1, PIDs: 128}

// inside returns the name of the cgroup of the machine's own processes.
func (m *Machine) inside() string { return filepath.Join(m.cgroup, insideCgroup) }

// makeCgroups creates the machine's cgroup and that of its egress process, with
// their limits. The OCI runtime creates the child cgroup of the machine's
// processes.
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

// plus adds limits. A limit that is unset in l stays unset.
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

// enterEgress moves a process into the cgroup of the machine's egress process.
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
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // machines started by an older server have no such cgroup
			return err
		}
	}
	return nil
}

// limited returns the controllers of the hierarchy that can limit machines.
func (h hierarchy) limited() (out []string) {
	for _, c := range []string{"memory", "pids", "cpu"} {
		if h.has(c) {
			out = append(out, c)
		}
	}
	return out
}

// limit creates a cgroup and sets the limits for which the hierarchy has a
// controller.
func (h hierarchy) limit(name string, l machine.Limits) error {
	has := h.limited()
	if len(has) == 0 {
		return nil
	}
	if h.v2 { // the parent must delegate its controllers
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
			// The kernel may lack swap accounting.
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

// files returns the files and values that set the limits of a controller.
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

// write writes to an existing file of a cgroup.
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
