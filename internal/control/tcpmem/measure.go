package tcpmem

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"aloft/internal/control/cgroup"
	"aloft/internal/control/machine"
)

// maxInspected limits how many descriptors of a machine's processes are inspected.
const maxInspected = 1 << 18

// Of returns how many bytes of TCP memory the processes of a cgroup and of those below it
// use. It needs root.
//
// Version 2 of cgroups counts this memory. Version 1 does not count it in cgroups that
// root in a machine creates. There, Of adds up the connections in all network namespaces
// that the processes are in, or hold by descriptors. It does not find a namespace
// that is held only by descriptors on their way between processes. If the
// processes have too many descriptors, the error wraps [machine.ErrTooManyFiles].
func Of(ctx context.Context, group string) (int64, error) {
	all, err := cgroup.Mounted()
	if err != nil {
		return 0, err
	}
	for _, h := range all {
		if !h.Has("memory") {
			continue
		}
		dir := filepath.Join(h.Dir, group)
		if h.V2 {
			return counted(dir)
		}
		pids, err := cgroup.Processes(dir)
		if err != nil {
			return 0, err
		}
		return ofProcesses(ctx, pids, maxInspected)
	}
	return 0, errors.New("no cgroup hierarchy counts memory")
}

// counted returns the memory of sockets that cgroup version 2 has counted.
func counted(dir string) (n int64, err error) {
	stat, err := os.ReadFile(filepath.Join(dir, "memory.stat"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // the machine has stopped
	}
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(stat)) {
		if value, ok := strings.CutPrefix(line, "sock "); ok {
			return strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		}
	}
	return 0, fmt.Errorf("%s/memory.stat does not count sockets", dir)
}

// search looks for the network namespaces of processes.
type search struct {
	seen  map[uint64]bool // inodes of the namespaces that are counted already
	bytes int64
	left  int // how many more descriptors may be inspected
}

func ofProcesses(ctx context.Context, pids []int, left int) (int64, error) {
	s := search{seen: map[uint64]bool{}, left: left}
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return 0, err
	}
	defer func() { _ = own.Close() }()
	if err := s.markSeen(own); err != nil { // the host's own connections belong to no machine
		return 0, err
	}
	for _, pid := range pids {
		tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid)) // an error means that the process has exited
		for _, task := range tasks {
			tid, err := strconv.Atoi(task.Name())
			if err != nil {
				continue
			}
			if err := context.Cause(ctx); err != nil {
				return 0, err
			}
			if err := s.task(ctx, pid, tid); err != nil {
				return 0, err
			}
		}
	}
	return s.bytes, nil
}

func (s *search) markSeen(ns *os.File) error {
	var stat unix.Stat_t
	if err := unix.Fstat(int(ns.Fd()), &stat); err != nil {
		return err
	}
	s.seen[stat.Ino] = true
	return nil
}

// task counts the namespaces of a thread.
func (s *search) task(ctx context.Context, pid, tid int) error {
	dir := fmt.Sprintf("/proc/%d/task/%d", pid, tid)
	if err := s.path(dir + "/ns/net"); err != nil {
		return err
	}
	flags := 0
	if tid != pid {
		if shareFiles(pid, tid) {
			return nil
		}
		flags = unix.PIDFD_THREAD
	}
	process, err := unix.PidfdOpen(tid, flags)
	if err != nil {
		return nil // the thread has exited
	}
	defer func() { _ = unix.Close(process) }()
	fds, err := os.Open(dir + "/fd")
	if err != nil {
		return nil // the thread has exited
	}
	defer func() { _ = fds.Close() }()
	for {
		names, _ := fds.Readdirnames(1024) // an error means the end, or that the thread has exited
		if len(names) == 0 {
			return nil
		}
		if s.left -= len(names); s.left < 0 {
			return machine.ErrTooManyFiles
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		for _, name := range names {
			path := dir + "/fd/" + name
			target, _ := os.Readlink(path)
			switch {
			case strings.HasPrefix(target, "socket:"):
				err = s.socket(process, name)
			case strings.HasPrefix(target, "net:"):
				err = s.path(path)
			}
			if err != nil {
				return err
			}
		}
	}
}

// shareFiles reports whether two threads have the same descriptors.
func shareFiles(a, b int) bool {
	const kcmpFiles = 2 // KCMP_FILES of linux/kcmp.h
	order, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(a), uintptr(b), kcmpFiles, 0, 0, 0)
	return errno == 0 && order == 0
}

// path counts the namespace to which a link in /proc leads.
func (s *search) path(path string) error {
	var stat unix.Stat_t
	if unix.Stat(path, &stat) != nil || s.seen[stat.Ino] {
		return nil //nolint:nilerr // the thread has exited, or the namespace is counted
	}
	ns, err := os.Open(path)
	if err != nil {
		return nil //nolint:nilerr // the thread has exited
	}
	return s.namespace(ns)
}

// socket counts the namespace of a socket, which is a descriptor of a process.
func (s *search) socket(process int, name string) error {
	fd, err := strconv.Atoi(name)
	if err != nil {
		return err
	}
	copied, err := unix.PidfdGetfd(process, fd, 0)
	if err != nil {
		return nil // the descriptor was closed
	}
	defer func() { _ = unix.Close(copied) }()
	ns, err := unix.IoctlRetInt(copied, unix.SIOCGSKNS)
	if err != nil {
		return nil // it is no longer a socket
	}
	return s.namespace(os.NewFile(uintptr(ns), "net"))
}

// namespace counts the connections in a namespace, unless they are counted already, and
// closes it.
func (s *search) namespace(ns *os.File) error {
	defer func() { _ = ns.Close() }()
	var stat unix.Stat_t
	if err := unix.Fstat(int(ns.Fd()), &stat); err != nil || s.seen[stat.Ino] {
		return err
	}
	s.seen[stat.Ino] = true
	n, err := inNamespace(ns)
	s.bytes += n
	return err
}
