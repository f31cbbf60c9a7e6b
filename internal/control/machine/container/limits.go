package container

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"aloft/internal/control/cgroup"
	"aloft/internal/control/machine"
)

// The machine's cgroup limits all processes that run for the machine, and the
// machine cannot change it. The machine and its egress process are in child
// cgroups. If the machine lifts the limits of its own cgroup, those of the
// parent still apply.
const (
	insideCgroup = "machine"
	egressCgroup = "egress"
)

// egressLimits are the limits of the machine's egress process, in addition to
// the machine's own limits. The memory limit is higher than the limit that
// package egress sets for itself.
var egressLimits = machine.Limits{MemoryBytes: 768 << 20, CPUs: 1, PIDs: 128}

// inside returns the name of the cgroup of the machine's own processes.
func (m *Machine) inside() string { return filepath.Join(m.cgroup, insideCgroup) }

// makeCgroups creates the machine's cgroup and the cgroup of its egress
// process, with their limits. The OCI runtime creates the child cgroup of the
// machine's processes.
func (m *Machine) makeCgroups(l machine.Limits) error {
	all, err := cgroup.Mounted()
	if err != nil {
		return err
	}
	for _, h := range all {
		if err := h.Limit(m.cgroup, cgroup.Limits(plus(l, egressLimits))); err != nil {
			return fmt.Errorf("cgroup %s: %w", m.cgroup, err)
		}
		if err := h.Limit(filepath.Join(m.cgroup, egressCgroup), cgroup.Limits(egressLimits)); err != nil {
			return fmt.Errorf("cgroup %s: %w", m.cgroup, err)
		}
		if err := m.limitSocketMemory(h); err != nil {
			return fmt.Errorf("cgroup %s: limit the memory of sockets: %w", m.cgroup, err)
		}
	}
	return nil
}

// limitSocketMemory limits the memory of the machine's sockets to an eighth of the
// amount at which the kernel slows down all TCP connections of the host. Without a
// limit, cgroup v1 counts this memory towards no cgroup. It counts the sockets of
// processes whose own cgroup has the limit, so the child cgroups have it too. Cgroup
// v2 counts it towards memory.max.
func (m *Machine) limitSocketMemory(h cgroup.Hierarchy) error {
	if h.V2 || !h.Has("memory") {
		return nil
	}
	limit, err := cgroup.SocketMemory()
	if err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(h.Dir, m.inside()), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	for _, name := range []string{m.cgroup, m.inside(), filepath.Join(m.cgroup, egressCgroup)} {
		err := h.Write(name, "memory.kmem.tcp.limit_in_bytes", strconv.FormatInt(limit, 10))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // removed from newer kernels
			return err
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
	if l.GuaranteedMemoryBytes > 0 { // a guarantee is effective only up to the parent's guarantee
		l.GuaranteedMemoryBytes += more.GuaranteedMemoryBytes
	}
	return l
}

// enterEgress moves a process into the cgroup of the machine's egress process.
func (m *Machine) enterEgress(pid int) error {
	all, err := cgroup.Mounted()
	if err != nil {
		return err
	}
	for _, h := range all {
		if len(h.Limited()) == 0 {
			continue
		}
		err := h.Write(filepath.Join(m.cgroup, egressCgroup), "cgroup.procs", strconv.Itoa(pid))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // machines started by an older server have no such cgroup
			return err
		}
	}
	return nil
}
