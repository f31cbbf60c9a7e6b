// Package cgroup finds the mounted cgroup hierarchies, of version 1 and 2, and
// creates cgroups with limits in them.
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

// Mounted returns the hierarchies of this host.
func Mounted() ([]Hierarchy, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return Parse(string(data)), nil
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

// Limited returns those controllers of the hierarchy that Limit uses.
func (h Hierarchy) Limited() (out []string) {
	for _, c := range []string{"memory", "pids", "cpu"} {
		if h.Has(c) {
			out = append(out, c)
		}
	}
	return out
}

// Limit creates the named cgroup and sets the limits for which the hierarchy
// has a controller. It does nothing if there is no such controller.
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

// vacate moves the processes in the root of the hierarchy to a cgroup of their own.
// In a container, the root is the container's cgroup, and the kernel makes the
// controllers of a cgroup available to its children only if it has no processes.
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
func (h Hierarchy) Files(controller string, l Limits) []File {
	const period = 100_000 // microseconds
	memory, quota := strconv.FormatInt(l.MemoryBytes, 10), int64(l.CPUs*period)
	switch {
	case controller == "memory" && l.MemoryBytes > 0 && h.V2:
		return []File{{"memory.max", memory, false}, {"memory.swap.max", "0", true}}
	case controller == "memory" && l.MemoryBytes > 0:
		return []File{{"memory.limit_in_bytes", memory, false}, {"memory.memsw.limit_in_bytes", memory, true}}
	case controller == "pids" && l.PIDs > 0:
		return []File{{"pids.max", strconv.FormatInt(l.PIDs, 10), false}}
	case controller == "cpu" && l.CPUs > 0 && h.V2:
		return []File{{"cpu.max", fmt.Sprintf("%d %d", quota, period), false}}
	case controller == "cpu" && l.CPUs > 0:
		return []File{{"cpu.cfs_period_us", strconv.Itoa(period), false}, {"cpu.cfs_quota_us", strconv.FormatInt(quota, 10), false}}
	}
	return nil
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
