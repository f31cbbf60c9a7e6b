package confine

import (
	"bytes"
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
	maxMemory    = 8 << 30 // bytes for a program and its children; at most half of the host's memory
	maxProcesses = 512     // processes of a program; git starts one thread per processor
)

// Host starts confined programs. Its methods are safe for concurrent use.
type Host struct {
	prefix string // prefix of cgroup names, followed by the owning process
	limits cgroup.Limits
	trees  []cgroup.Hierarchy // hierarchies that can limit memory or processes
}

// last is the number of the last cgroup that this process has created.
var last atomic.Int64

// Open returns a Host for a process that works on the folder dir. If earlier
// processes on dir were killed, it kills the programs that they left running.
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

// Limited reports whether the host can limit the memory and the number of
// processes of programs.
func (h *Host) Limited() (memory, processes bool) {
	for _, t := range h.trees {
		memory, processes = memory || t.Has("memory"), processes || t.Has("pids")
	}
	return memory, processes
}

// owner identifies a running process. A later process with the same id has
// another start time. It returns "" if there is no such process.
func owner(pid string) string {
	data, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return ""
	}
	// The program's name is in parentheses and may contain any characters,
	// including parentheses.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	const start = 22 - 3 // field 22; the first after the name is field 3
	if len(fields) <= start {
		return ""
	}
	return pid + "." + fields[start]
}

// sweep kills the programs whose starting process no longer runs, and removes
// their cgroups.
func (h *Host) sweep() error {
	for _, t := range h.trees {
		left, err := filepath.Glob(filepath.Join(t.Dir, h.prefix+"*"))
		if err != nil {
			return err
		}
		for _, dir := range left {
			by, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), h.prefix), "-")
			if pid, _, ok := strings.Cut(by, "."); ok && owner(pid) == by {
				continue
			}
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
	procs []*os.File // directories of the cgroup, one per hierarchy
}

func (h *Host) newGroup() (*group, error) {
	g := &group{h: h, name: fmt.Sprintf("%s%s-%d", h.prefix, owner(strconv.Itoa(os.Getpid())), last.Add(1))}
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

// enter moves a process into the cgroup. It works even if the calling thread
// does not see the host's files.
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
		_ = f.Close() // nothing was written through it
	}
}

// kill kills the processes of the cgroup. Confined programs cannot create
// cgroups below it.
func (g *group) kill(t cgroup.Hierarchy) {
	data, _ := os.ReadFile(filepath.Join(t.Dir, g.name, "cgroup.procs")) // a removed cgroup has no processes
	for pid := range strings.FieldsSeq(string(data)) {
		if n, err := strconv.Atoi(pid); err == nil && n > 0 {
			_ = unix.Kill(n, unix.SIGKILL) // the process may have ended
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
				break // on failure, the next process on the folder removes the cgroup
			}
			time.Sleep(wait)
		}
	}
}
