package container

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

	"aloft/internal/control/cgroup"
	"aloft/internal/control/machine"
)

// The machine's cgroup limits everything that runs for the machine and is out
// of its reach. The machine and its egress process are in child cgroups. If the
// machine lifts the limits of its own cgroup, those of the parent still apply.
const (
	insideCgroup = "machine"
	egressCgroup = "egress"
)

// egressLimits are the limits of the machine's egress process, in addition to
// the machine's own limits. The memory limit is above the one that package
// egress enforces on itself.
var egressLimits = machine.Limits{MemoryBytes: 768 << 20, CPUs: 1, PIDs: 128}

// inside returns the name of the cgroup of the machine's own processes.
func (m *Machine) inside() string { return filepath.Join(m.cgroup, insideCgroup) }

// makeCgroups creates the machine's cgroup and that of its egress process, with
// their limits. The OCI runtime creates the child cgroup of the machine's
// processes.
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
	if l.GuaranteedMemoryBytes > 0 { // a guarantee holds only up to that of the parent
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
