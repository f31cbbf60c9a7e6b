package main

import (
	"os"
	"path/filepath"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// calls makes system calls that change or read the host. The arguments are
// valid, so that a permitted call has an effect. Where the effect would kill
// the probe, the arguments are invalid in a way that the kernel checks only
// after the privileges.
func calls() {
	runtime.LockOSThread() // a call that succeeds must not affect a thread of the Go runtime
	dir, err := os.MkdirTemp("", "probe-")
	if err != nil {
		tell("temporary folder", err)
		return
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "file")
	_ = os.WriteFile(file, []byte("x"), 0o600)

	tell("fsopen", second(unix.Fsopen("tmpfs", 0)))
	tell("open_tree", second(unix.OpenTree(unix.AT_FDCWD, "/etc", unix.OPEN_TREE_CLONE)))
	tell("mount_setattr", unix.MountSetattr(unix.AT_FDCWD, "/proc/sys", 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}))
	for name, flag := range map[string]int{
		"user": unix.CLONE_NEWUSER, "mount": unix.CLONE_NEWNS, "net": unix.CLONE_NEWNET, "pid": unix.CLONE_NEWPID, "cgroup": unix.CLONE_NEWCGROUP,
	} {
		tell("new "+name+" namespace", unix.Unshare(flag))
	}
	tell("init_module", unix.InitModule([]byte("x"), ""))
	if fd, err := unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
		tell("finit_module", unix.FinitModule(fd, "", 0))
		_ = unix.Close(fd)
	}
	tell("delete_module", unix.DeleteModule("overlay", 0))
	tell("kexec_load", raw(unix.SYS_KEXEC_LOAD, 0, 0, 0))
	tell("kexec_file_load", raw(unix.SYS_KEXEC_FILE_LOAD, ^uintptr(0), ^uintptr(0), 0))
	tell("reboot", raw(unix.SYS_REBOOT, unix.LINUX_REBOOT_MAGIC1, unix.LINUX_REBOOT_MAGIC2, 0x12345))
	tell("swapon", onPath(unix.SYS_SWAPON, file))
	tell("swapoff", onPath(unix.SYS_SWAPOFF, file))
	tell("acct", unix.Acct(file))
	tell("quotactl", raw(unix.SYS_QUOTACTL, 0x800002<<8, 0, 0))
	tell("kernel log", second(unix.Klogctl(3, make([]byte, 16))))

	tell("bpf", raw(unix.SYS_BPF, 0, 0, 0))
	tell("perf_event_open", perf())
	tell("userfaultfd", raw(unix.SYS_USERFAULTFD, unix.O_CLOEXEC, 0, 0))
	tell("io_uring_setup", raw(unix.SYS_IO_URING_SETUP, 1, 0, 0))
	tell("keyctl", second(unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, true)))
	tell("add_key", second(unix.AddKey("user", "probe", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)))
	tell("request_key", second(unix.RequestKey("user", "probe", "", 0)))
	// Tracing one's own processes is allowed, for debuggers.
	tell("ptrace of process 1", raw(unix.SYS_PTRACE, unix.PTRACE_SEIZE, 1, 0))
	tell("open by handle", handle())
	tell("iopl", raw(unix.SYS_IOPL, 3, 0, 0))
	tell("ioperm", raw(unix.SYS_IOPERM, 0x80, 1, 1))
	tell("move to another memory node", raw(unix.SYS_MOVE_PAGES, 0, 0, 0))

	now := unix.NsecToTimespec(time.Now().Add(time.Hour).UnixNano())
	tell("clock_settime", raw(unix.SYS_CLOCK_SETTIME, unix.CLOCK_REALTIME, uintptr(unsafe.Pointer(&now)), 0))
	tv := unix.NsecToTimeval(time.Now().Add(time.Hour).UnixNano())
	tell("settimeofday", unix.Settimeofday(&tv))
	tell("adjtimex", second(unix.Adjtimex(&unix.Timex{Modes: unix.ADJ_FREQUENCY, Freq: 1 << 16})))
	tell("sethostname", unix.Sethostname([]byte("probe")))
	tell("raise a limit", raise())
	tell("nice -20", unix.Setpriority(unix.PRIO_PROCESS, 0, -20))
	tell("real-time priority", realtime())
}

// mounts changes the mounts of the current mount namespace, and at last its root.
func mounts() {
	dir, err := os.MkdirTemp("", "probe-")
	if err != nil {
		tell("temporary folder for mounts", err)
		return
	}
	defer os.RemoveAll(dir)
	tell("mount tmpfs", unix.Mount("none", dir, "tmpfs", 0, ""))
	tell("mount proc", unix.Mount("none", dir, "proc", 0, ""))
	tell("mount cgroup", unix.Mount("none", dir, "cgroup2", 0, ""))
	tell("mount overlay", unix.Mount("none", dir, "overlay", 0, "lowerdir=/etc:/usr"))
	tell("bind mount", unix.Mount("/etc", dir, "", unix.MS_BIND, ""))
	tell("remount /proc/sys", unix.Mount("", "/proc/sys", "", unix.MS_REMOUNT|unix.MS_BIND, ""))
	tell("remount /usr", unix.Mount("", "/usr", "", unix.MS_REMOUNT|unix.MS_BIND, ""))
	tell("unmount /proc/sys", unix.Unmount("/proc/sys", unix.MNT_DETACH))
	tell("unmount /proc/kcore", unix.Unmount("/proc/kcore", unix.MNT_DETACH))
	ns, openErr := unix.Open("/proc/1/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	tell("pivot_root", unix.PivotRoot(dir, dir))
	if openErr != nil {
		tell("setns", openErr)
		return
	}
	tell("setns", unix.Setns(ns, unix.CLONE_NEWNS)) // last: this thread now sees the mounts of process 1
	_ = unix.Close(ns)
}

func second[T any](_ T, err error) error { return err }

func raw(number, a, b, c uintptr) error {
	if _, _, errno := unix.Syscall6(number, a, b, c, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

func onPath(number uintptr, path string) error {
	p, err := unix.BytePtrFromString(path)
	if err != nil {
		return err
	}
	return raw(number, uintptr(unsafe.Pointer(p)), 0, 0)
}

// perf opens a counter for a whole processor, which would observe all processes
// on it.
func perf() error {
	fd, err := unix.PerfEventOpen(&unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{}))}, -1, 0, -1, 0)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err
}

// handle opens inode 2 of the file system of /etc/hostname: the root of that
// file system, wherever it is mounted on the host.
func handle() error {
	at, err := unix.Open("/etc", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	fd, err := unix.OpenByHandleAt(at, unix.NewFileHandle(1, []byte{2, 0, 0, 0, 0, 0, 0, 0}), unix.O_RDONLY)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err
}

func raise() error {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return err
	}
	l.Cur, l.Max = l.Max+1, l.Max+1
	return unix.Setrlimit(unix.RLIMIT_NOFILE, &l)
}

func realtime() error {
	return unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}, 0)
}
