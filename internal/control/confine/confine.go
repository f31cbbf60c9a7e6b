// Package confine starts programs that read hostile data. A program runs as a
// separate user, without capabilities or any way to gain them, behind a system
// call filter, in new mount and PID namespaces, and in a cgroup with limits. It
// sees only the named folders. It requires root.
package confine

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Lock the main goroutine to the main thread, so that no other goroutine enters a jail on
// it. A thread that has entered a jail ends with its goroutine, but the main thread
// cannot end, and /proc/self would keep showing the jail.
func init() { runtime.LockOSThread() }

// Users are the user ids from FirstUser on that confined programs run as.
// Neither distributions nor systemd assign these ids, nor those of machines
// (0x60000000) and of egress processes (0x70000000).
const (
	FirstUser = 0x7ff00000
	Users     = 0xe0000

	Nobody = FirstUser + Users - 1 // the user of programs that own no files
)

// Jail lists the resources that a program may use. The program sees nothing
// else of the host.
type Jail struct {
	User    int      // user and group id of the program
	Read    []string // files and folders that it sees read-only, in addition to the host's programs
	Write   []string // folders that it sees and may write to, if their modes allow that
	Execute []string // further files and folders that it sees read-only and may execute
	// Files are O_PATH descriptors for paths in Read, Write and Execute. The
	// program sees the opened file, even if the path now leads to another file.
	Files   map[string]*os.File
	Network bool // the program may open IPv4 and IPv6 sockets
	Bare    bool // the program sees none of the host's programs, certificates and devices; Stdin, Stdout and Stderr must be set

	// Capabilities are capabilities that the program keeps. They must affect only
	// files, because only one thing protects the host from them: the program sees
	// none of the host's files.
	Capabilities []uintptr

	DataBytes uint64 // memory that each process may allocate; unlimited if 0
	FileBytes uint64 // size of each file that it writes; unlimited if 0
}

// processes limits the number of processes per user. A program's cgroup has its
// own, lower limit; this one also applies on hosts without cgroups.
const processes = 4096

// Start starts the command in the jail. As after [exec.Cmd.Start], the caller
// must call Wait, and then release. When the command ends, the kernel kills all
// processes that it has started. The command is process 1 of its PID namespace,
// so SIGTERM has no effect on it unless it handles that signal.
func (h *Host) Start(cmd *exec.Cmd, j Jail) (release func(), err error) {
	g, err := h.newGroup()
	if err != nil {
		return nil, fmt.Errorf("confine %s: %w", cmd.Path, err)
	}
	defer g.close()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, so that the thread ends with this goroutine
		done <- j.start(cmd, g)
	}()
	if err := <-done; err != nil {
		g.remove()
		return nil, fmt.Errorf("confine %s: %w", cmd.Path, err)
	}
	// Make the kernel kill the program before the server when memory runs out.
	// If the value cannot be raised, it stays unchanged.
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", cmd.Process.Pid), []byte("600"), 0)
	return func() { go g.remove() }, nil
}

// start starts the command from a thread that it has confined first, since a
// child inherits the thread's restrictions. The command is in its cgroup, and
// has its limits, before it executes its first instruction.
func (j Jail) start(cmd *exec.Cmd, g *group) error {
	mounts, err := j.openMounts() // opened before the thread leaves the host's mount namespace
	defer closeMounts(mounts)
	if err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("new mount namespace: %w", err)
	}
	if err := j.enterRoot(mounts); err != nil {
		return err
	}
	if err := j.filterCalls(); err != nil {
		return err
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWPID
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(j.User), Gid: uint32(j.User)}
	cmd.SysProcAttr.AmbientCaps = j.Capabilities
	// A traced process stops after it has executed the program.
	cmd.SysProcAttr.Ptrace = true
	if err := cmd.Start(); err != nil {
		return err
	}
	pid := cmd.Process.Pid
	var status unix.WaitStatus
	_, err = unix.Wait4(pid, &status, unix.WALL, nil)
	if err == nil && !status.Stopped() {
		err = fmt.Errorf("the program ended before it was ready: status %#x", status)
	}
	if err == nil {
		err = j.limit(pid)
	}
	if err == nil {
		err = g.enter(pid)
	}
	if err == nil {
		err = unix.PtraceDetach(pid)
	}
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed, so the error is expected
	}
	return err
}

// limit sets the resource limits of a process and its future children. It
// changes the real user and group of the calling thread, because without
// CAP_SYS_RESOURCE only the process's own user may set them.
func (j Jail) limit(pid int) error {
	// Use raw system calls: the functions of package unix change all threads.
	const same = ^uintptr(0)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, uintptr(j.User), same, same); errno != 0 {
		return fmt.Errorf("change the group to %d: %w", j.User, errno)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(j.User), same, same); errno != 0 {
		return fmt.Errorf("change the user to %d: %w", j.User, errno)
	}
	limits := map[int]uint64{unix.RLIMIT_CORE: 0, unix.RLIMIT_NPROC: processes}
	if j.DataBytes > 0 {
		limits[unix.RLIMIT_DATA] = j.DataBytes
	}
	if j.FileBytes > 0 {
		limits[unix.RLIMIT_FSIZE] = j.FileBytes
	}
	for which, to := range limits {
		if err := unix.Prlimit(pid, which, &unix.Rlimit{Cur: to, Max: to}, nil); err != nil {
			return fmt.Errorf("set resource limit %d: %w", which, err)
		}
	}
	return nil
}

// filterCalls installs the system call filters for the calling thread and its
// future children, and prevents gaining privileges through exec.
func (j Jail) filterCalls() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	filters := [][]unix.SockFilter{filter_confined, filter_no_unix}
	if !j.Network {
		filters = append(filters, filter_no_inet)
	}
	for _, f := range filters {
		program := unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
		if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program))); errno != 0 {
			return fmt.Errorf("filter system calls: %w", errno)
		}
	}
	return nil
}
