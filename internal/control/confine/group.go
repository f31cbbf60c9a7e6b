package confine

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"aloft/internal/control/cgroup"
)

const (
	maxMemory    = 8 << 30 // bytes that a program and its children may use; at most half of the host's memory
	maxProcesses = 512     // of a program; git starts one thread per processor
)

// Host starts confined programs. Its methods are safe for concurrent use.
type Host struct {
	prefix string // of the names of cgroups
	limits cgroup.Limits
	trees  []cgroup.Hierarchy // those that can limit memory or processes
	last   atomic.Int64
}

// Open returns a Host for the server that owns the folder dir, and ends what an
// earlier server on the folder has left running.
func Open(dir string) (*Host, error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("the server runs as user %d, not as root", os.Geteuid())
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(dir)) // never fails
	h := &Host{prefix: fmt.Sprintf("aloft-confined-%08x-", sum.Sum32()), limits: cgroup.Limits{MemoryBytes: maxMemory, PIDs: maxProcesses}}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		h.limits.MemoryBytes = min(h.limits.MemoryBytes, int64(info.Totalram)*int64(info.Unit)/2)
	}
	all, err := cgroup.Mounted()
	if err != nil {
		return nil, err
	}
	for _, t := range all {
		if t.Has("memory") || t.Has("pids") {
			h.trees = append(h.trees, t)
		}
	}
	return h, h.sweep()
}

// Limited reports whether the host limits the memory of programs and their
// number of processes.
func (h *Host) Limited() (memory, processes bool) {
	for _, t := range h.trees {
		memory, processes = memory || t.Has("memory"), processes || t.Has("pids")
	}
	return memory, processes
}

// sweep kills the programs of an earlier server and removes their cgroups.
func (h *Host) sweep() error {
	for _, t := range h.trees {
		left, err := filepath.Glob(filepath.Join(t.Dir, h.prefix+"*"))
		if err != nil {
			return err
		}
		for _, dir := range left {
			g := &group{h: h, name: filepath.Base(dir)}
			g.kill(t)
			g.remove()
		}
	}
	return nil
}

// group is the cgroup of one program.
type group struct {
	h     *Host
	name  string
	procs []*os.File // where processes enter it, in each tree
}

func (h *Host) newGroup() (*group, error) {
	g := &group{h: h, name: h.prefix + strconv.FormatInt(h.last.Add(1), 10)}
	for _, t := range h.trees {
		err := t.Limit(g.name, h.limits)
		if err == nil {
			var f *os.File
			if f, err = os.OpenFile(filepath.Join(t.Dir, g.name, "cgroup.procs"), os.O_WRONLY, 0); err == nil {
				g.procs = append(g.procs, f)
			}
		}
		if err != nil {
			g.close()
			g.remove()
			return nil, err
		}
	}
	return g, nil
}

// enter moves a process into the cgroup. The calling thread need not see the
// host's files.
func (g *group) enter(pid int) error {
	for _, f := range g.procs {
		if _, err := f.WriteString(strconv.Itoa(pid)); err != nil {
			return err
		}
	}
	return nil
}

func (g *group) close() {
	for _, f := range g.procs {
		_ = f.Close() // only a descriptor
	}
}

// kill kills the processes of the cgroup. Confined programs cannot create
// cgroups below it.
func (g *group) kill(t cgroup.Hierarchy) {
	data, _ := os.ReadFile(filepath.Join(t.Dir, g.name, "cgroup.procs")) // a removed cgroup has none
	for pid := range strings.FieldsSeq(string(data)) {
		if n, err := strconv.Atoi(pid); err == nil && n > 0 {
			_ = unix.Kill(n, unix.SIGKILL) // it may have ended
		}
	}
}

// remove removes the cgroup. The kernel counts an exited process until it is
// fully released, so this may take a few attempts.
func (g *group) remove() {
	for _, t := range g.h.trees {
		dir := filepath.Join(t.Dir, g.name)
		for wait := time.Millisecond; ; wait *= 2 {
			err := unix.Rmdir(dir)
			if err == nil || errors.Is(err, fs.ErrNotExist) || wait > time.Second {
				break // the next server on the folder removes what is left
			}
			time.Sleep(wait)
		}
	}
}
