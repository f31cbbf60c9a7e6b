// Package cgroup finds the mounted cgroup hierarchies, of version 1 and 2,
// creates cgroups with limits in them, and removes cgroups with their
// processes, which may be hostile.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A Hierarchy is one mounted cgroup tree. A host with cgroup v2 has one; a host
// with v1 has one per controller; a hybrid host has both kinds.
type Hierarchy struct {
	Dir         string
	V2          bool
	controllers []string
}

// Limits of a cgroup. A limit that is 0 is not set.
type Limits struct {
	MemoryBytes int64
	CPUs        float64
	PIDs        int64
	// GuaranteedMemoryBytes is how much memory the kernel does not reclaim
	// while other cgroups have more than their own guarantees. On v1, the
	// kernel reclaims first from the cgroups that exceed their guarantee most.
	GuaranteedMemoryBytes int64
	// GuaranteedCPUs determines the cgroup's share of the CPU time when all CPUs
	// are busy.
	GuaranteedCPUs float64
}

// Parse returns the cgroup trees listed in the text of a mountinfo file.
func Parse(mountinfo string) []Hierarchy {
	var out []Hierarchy
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !ok || len(left) < 5 || len(right) < 3 {
			continue
		}
		switch right[0] {
		case "cgroup2":
			out = append(out, Hierarchy{Dir: left[4], V2: true})
		case "cgroup":
			out = append(out, Hierarchy{Dir: left[4], controllers: strings.Split(right[2], ",")})
		}
	}
	return out
}

// mounted caches the hierarchies, because reading the mounts of a host with many
// machines takes longer than most uses of a hierarchy.
var mounted atomic.Pointer[[]Hierarchy]

// Mounted returns the hierarchies that were mounted at its first call. The
// caller must not change the slice.
func Mounted() ([]Hierarchy, error) {
	if all := mounted.Load(); all != nil {
		return *all, nil
	}
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	all := Parse(string(data))
	if len(all) > 0 {
		mounted.Store(&all)
	}
	return all, nil
}

// Versions returns which versions of cgroups this host has: "version 1",
// "version 2" or "version 1 and 2". It returns "" if none is mounted.
func Versions() string {
	all, err := Mounted()
	if err != nil || len(all) == 0 {
		return ""
	}
	one := slices.ContainsFunc(all, func(h Hierarchy) bool { return !h.V2 })
	two := slices.ContainsFunc(all, func(h Hierarchy) bool { return h.V2 })
	switch {
	case one && two:
		return "version 1 and 2"
	case two:
		return "version 2"
	}
	return "version 1"
}

// Has reports whether the hierarchy has the given controller.
func (h Hierarchy) Has(controller string) bool {
	names := h.controllers
	if h.V2 {
		data, err := os.ReadFile(filepath.Join(h.Dir, "cgroup.controllers"))
		if err != nil {
			return false
		}
		names = strings.Fields(string(data))
	}
	return slices.Contains(names, controller)
}

// Limited returns the hierarchy's controllers that Limit uses.
func (h Hierarchy) Limited() (out []string) {
	for _, c := range []string{"memory", "pids", "cpu"} {
		if h.Has(c) {
			out = append(out, c)
		}
	}
	return out
}

// Limit creates the named cgroup and sets the limits for which the hierarchy
// has a controller. If the hierarchy has none of these controllers, Limit does
// nothing.
func (h Hierarchy) Limit(name string, l Limits) error {
	has := h.Limited()
	if len(has) == 0 {
		return nil
	}
	if h.V2 {
		if err := h.delegate(filepath.Dir(name), has); err != nil {
			return err
		}
	}
	if err := os.Mkdir(filepath.Join(h.Dir, name), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	for _, c := range has {
		for _, f := range h.Files(c, l) {
			// The kernel may lack swap accounting.
			if err := h.Write(name, f.Name, f.Value); err != nil && !(f.Optional && errors.Is(err, fs.ErrNotExist)) {
				return err
			}
		}
	}
	return nil
}

// delegate makes controllers of cgroup v2 available to the children of the named
// cgroup.
func (h Hierarchy) delegate(name string, controllers []string) error {
	for _, c := range controllers {
		err := h.Write(name, "cgroup.subtree_control", "+"+c)
		if errors.Is(err, unix.EBUSY) && name == "." {
			if err = h.vacate(); err == nil {
				err = h.Write(name, "cgroup.subtree_control", "+"+c)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// serverCgroup is the cgroup of the processes that vacate moves.
const serverCgroup = "aloft-server"

// vacate moves the processes in the root of the hierarchy to serverCgroup. In a
// container, the root is the container's cgroup, and the kernel delegates the
// controllers of a cgroup to its children only if the cgroup has no processes.
func (h Hierarchy) vacate() error {
	pids, err := os.ReadFile(filepath.Join(h.Dir, "cgroup.procs"))
	if err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(h.Dir, serverCgroup), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	for pid := range strings.FieldsSeq(string(pids)) {
		if err := h.Write(serverCgroup, "cgroup.procs", pid); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return nil
}

// A File sets a limit of a cgroup.
type File struct {
	Name, Value string
	Optional    bool // some kernels lack the file
}

// Files returns the files and values that set the limits of a controller.
func (h Hierarchy) Files(controller string, l Limits) (out []File) {
	const period = 100_000 // microseconds
	set := func(v2, v1, value string, optional bool) {
		name := v1
		if h.V2 {
			name = v2
		}
		out = append(out, File{name, value, optional})
	}
	memory, quota := strconv.FormatInt(l.MemoryBytes, 10), strconv.FormatInt(int64(l.CPUs*period), 10)
	switch controller {
	case "memory":
		if l.MemoryBytes > 0 && h.V2 {
			out = append(out, File{"memory.max", memory, false}, File{"memory.swap.max", "0", true})
		} else if l.MemoryBytes > 0 {
			out = append(out, File{"memory.limit_in_bytes", memory, false}, File{"memory.memsw.limit_in_bytes", memory, true})
		}
		if l.GuaranteedMemoryBytes > 0 {
			set("memory.low", "memory.soft_limit_in_bytes", strconv.FormatInt(l.GuaranteedMemoryBytes, 10), true)
		}
	case "pids":
		if l.PIDs > 0 {
			out = append(out, File{"pids.max", strconv.FormatInt(l.PIDs, 10), false})
		}
	case "cpu":
		if l.CPUs > 0 && h.V2 {
			out = append(out, File{"cpu.max", fmt.Sprintf("%s %d", quota, period), false})
		} else if l.CPUs > 0 {
			out = append(out, File{"cpu.cfs_period_us", strconv.Itoa(period), false}, File{"cpu.cfs_quota_us", quota, false})
		}
		if l.GuaranteedCPUs > 0 {
			set("cpu.weight", "cpu.shares", strconv.FormatUint(h.weight(l.GuaranteedCPUs), 10), false)
		}
	}
	return out
}

// weight returns the value of cpu.weight or cpu.shares for a number of CPUs.
// One CPU corresponds to the kernel's default: 100 on v2, 1024 on v1.
func (h Hierarchy) weight(cpus float64) uint64 {
	if h.V2 {
		return uint64(min(max(cpus*100, 1), 10_000))
	}
	return Shares(cpus)
}

// Shares returns the value of cpu.shares of cgroup v1 for a number of CPUs.
func Shares(cpus float64) uint64 { return uint64(min(max(cpus*1024, 2), 1<<18)) }

// Kills returns how many processes the kernel has killed for lack of memory in
// the named cgroup and the cgroups below it. It returns 0 if the hierarchy has
// no memory controller or the kernel does not count kills.
func (h Hierarchy) Kills(name string) int {
	dir := filepath.Join(h.Dir, name)
	if h.V2 {
		return keyed(filepath.Join(dir, "memory.events"), "oom_kill") // includes the cgroups below
	}
	if !h.Has("memory") {
		return 0
	}
	n := keyed(filepath.Join(dir, "memory.oom_control"), "oom_kill")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return n // the cgroup is gone
	}
	for _, e := range entries {
		if e.IsDir() {
			n += h.Kills(filepath.Join(name, e.Name()))
		}
	}
	return n
}

// keyed returns the number after a key in a file of lines, or 0 if the key is
// missing.
func keyed(path, key string) int {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == key {
			n, err := strconv.Atoi(f[1])
			if err == nil {
				return n
			}
		}
	}
	return 0
}

// Write writes to an existing file of the named cgroup.
func (h Hierarchy) Write(name, file, value string) error {
	path := filepath.Join(h.Dir, name, file)
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}
