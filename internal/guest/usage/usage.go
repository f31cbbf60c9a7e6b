// Package usage reads from the kernel which processes a machine has, and how much
// processor time, memory and disk they use.
package usage

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// clockTick is the unit of CPU times in /proc, the same on every Linux.
const clockTick = 10 * time.Millisecond

// Usage is the resource usage of processes.
type Usage struct {
	CPU       time.Duration
	Memory    int64 // resident, in bytes
	Processes int
}

func (u *Usage) add(o Usage) {
	u.CPU += o.CPU
	u.Memory += o.Memory
	u.Processes += o.Processes
}

// A Table has the usage of every process, and the parent-child relations.
type Table struct {
	each     map[int]Usage
	children map[int][]int
}

// ReadTable reads /proc. Processes that end meanwhile may be missing.
func ReadTable() (Table, error) {
	children, err := Children()
	if err != nil {
		return Table{}, err
	}
	t := Table{each: make(map[int]Usage), children: children}
	for _, list := range children {
		for _, pid := range list {
			line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
			if err != nil {
				continue // it has ended meanwhile
			}
			t.each[pid] = parseUsage(line)
		}
	}
	return t, nil
}

// All returns the sum over all processes.
func (t Table) All() (sum Usage) {
	for _, u := range t.each {
		sum.add(u)
	}
	return sum
}

// Below returns the sum over a process and all its descendants.
func (t Table) Below(pid int) (sum Usage) {
	seen := map[int]bool{}
	for queue := []int{pid}; len(queue) > 0; {
		next := queue[0]
		queue = queue[1:]
		if seen[next] {
			continue // the table was read while processes changed, and has a loop
		}
		seen[next] = true
		sum.add(t.each[next])
		queue = append(queue, t.children[next]...)
	}
	return sum
}

// parseUsage reads /proc/PID/stat. Values that it cannot parse are 0.
func parseUsage(line []byte) Usage {
	end := bytes.LastIndexByte(line, ')')
	if end < 0 {
		return Usage{}
	}
	fields := bytes.Fields(line[end+1:])
	field := func(n int) int64 { // numbered as in proc(5), where the state is 3
		if n-3 >= len(fields) {
			return 0
		}
		v, err := strconv.ParseInt(string(fields[n-3]), 10, 64)
		if err != nil || v < 0 {
			return 0
		}
		return v
	}
	const most = int64(1) << 38 // prevents overflow by nonsensical values
	return Usage{
		CPU:       time.Duration(min(field(14), most)+min(field(15), most)) * clockTick,
		Memory:    min(field(24), most) * int64(os.Getpagesize()),
		Processes: 1,
	}
}

// A Disk is a file system. Its sizes are in bytes.
type Disk struct {
	Path                  string
	Size, Used, Available int64
}

// Disks returns the file systems of the folders, without duplicates.
func Disks(paths ...string) []Disk {
	var list []Disk
	seen := map[uint64]bool{}
	for _, path := range paths {
		var stat unix.Stat_t
		var fs unix.Statfs_t
		if unix.Stat(path, &stat) != nil || seen[stat.Dev] || unix.Statfs(path, &fs) != nil {
			continue
		}
		seen[stat.Dev] = true
		block := fs.Frsize
		list = append(list, Disk{
			Path: path, Size: int64(fs.Blocks) * block, Used: int64(fs.Blocks-fs.Bfree) * block, Available: int64(fs.Bavail) * block,
		})
	}
	return list
}

// Processors returns how many processors this process may use.
func Processors() int32 { return int32(min(runtime.NumCPU(), 1<<16)) }

// memoryFiles are the files in which the kernel reports the memory of this
// process's cgroup, for cgroup v2 and v1. For each, the path in a machine with
// its own cgroup mount comes first, then the path below the host's mount.
func memoryFiles(v2, v1 string) []string {
	files := []string{"/sys/fs/cgroup/" + v2, "/sys/fs/cgroup/memory/" + v1}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return files
	}
	for line := range strings.Lines(string(own)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		switch f[1] {
		case "":
			files = append(files, filepath.Join("/sys/fs/cgroup", f[2], v2), filepath.Join("/sys/fs/cgroup/unified", f[2], v2))
		case "memory":
			files = append(files, filepath.Join("/sys/fs/cgroup/memory", f[2], v1))
		}
	}
	return files
}

// first reads the first of the files that exists.
func first(files []string) ([]byte, bool) {
	for _, file := range files {
		if b, err := os.ReadFile(file); err == nil {
			return b, true
		}
	}
	return nil, false
}

// OOMKills returns how many processes in this machine the out-of-memory killer
// has killed; 0 if the kernel does not report it.
func OOMKills() int64 {
	b, _ := first(memoryFiles("memory.events", "memory.oom_control"))
	return keyed(b, "oom_kill")
}

// MemoryUsed returns the memory that the machine's cgroup uses.
func MemoryUsed() (int64, bool) {
	b, ok := first(memoryFiles("memory.current", "memory.usage_in_bytes"))
	n, err := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64)
	return n, ok && err == nil
}

// MemoryLimit returns the memory limit of the machine's cgroup, or all memory.
func MemoryLimit() int64 {
	total := int64(0)
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		total = keyed(b, "MemTotal:") << 10
	}
	if b, ok := first(memoryFiles("memory.max", "memory.limit_in_bytes")); ok {
		if n, err := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64); err == nil && n > 0 && (total == 0 || n < total) {
			return n
		}
	}
	return total
}

// keyed finds a line "key number" and returns the number; 0 if there is none.
func keyed(b []byte, key string) int64 {
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) >= 2 && f[0] == key {
			n, err := strconv.ParseInt(f[1], 10, 64)
			if err == nil && n > 0 {
				return n
			}
		}
	}
	return 0
}
