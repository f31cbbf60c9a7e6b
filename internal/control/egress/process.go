package egress

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"aloft/internal/policy"
)

// File descriptors that a gateway's process inherits.
const (
	deviceFD = 3 // the TAP device
	readyFD  = 4 // the process writes to it once it serves
)

// gatewayMemory is the soft memory limit of the process in bytes. With the
// limits above, a gateway stays below it in normal operation.
const gatewayMemory = 512 << 20

// gatewayThreads is GOMAXPROCS of the process. Each packet is handled by
// several goroutines for a few microseconds, so waking another thread costs
// more than it saves, and the stack's spin locks waste time while another
// thread writes to the device. With two threads, opening a connection takes
// twice as long, and a download takes 50 % longer. The limit also bounds the
// CPU time that a machine's traffic costs the host.
const gatewayThreads = 1

// goneEvery is how often a process checks whether its folder still exists.
const goneEvery = 2 * time.Second

// RunProcess runs the process of one gateway. It reads its policy from
// policy.json in dir and listens on gateway.sock there. Descriptor 3 is the TAP
// device; RunProcess writes to descriptor 4 and closes it once the gateway
// serves. It logs connections in the folder logs, unless that is "". It returns
// when ctx ends or dir is removed.
func RunProcess(ctx context.Context, dir, logs string, logger *slog.Logger) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	own, err := user(folder)
	if err != nil {
		return err
	}
	go func() {
		defer func() { _ = folder.Close() }()
		endWithFolder(ctx, folder, stop)
	}()
	data, err := os.ReadFile(filepath.Join(dir, "policy.json"))
	if err != nil {
		return err
	}
	var n policy.Network
	if err := json.Unmarshal(data, &n); err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	listener, err := listenIn(ctx, dir, "gateway.sock")
	if err != nil {
		return err
	}
	var log *Log
	if logs != "" {
		if log, err = OpenLog(logs); err != nil {
			return errors.Join(err, listener.Close())
		}
	}
	if err := dropPrivileges(own); err != nil {
		return errors.Join(err, log.Close(), listener.Close())
	}
	debug.SetMemoryLimit(gatewayMemory)
	runtime.GOMAXPROCS(gatewayThreads)
	g, err := New(Config{Device: os.NewFile(deviceFD, "device"), Policy: n, Log: log, Logger: logger})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	ready := os.NewFile(readyFD, "ready")
	if _, err := ready.Write([]byte{1}); err != nil {
		logger.Warn("cannot tell the server that the egress process is ready", "error", err)
	}
	_ = ready.Close()
	return errors.Join(Serve(ctx, listener, g), g.Close())
}

// endWithFolder calls stop when the folder is removed.
func endWithFolder(ctx context.Context, folder *os.File, stop func()) {
	tick := time.NewTicker(goneEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var st unix.Stat_t
		if err := unix.Fstat(int(folder.Fd()), &st); err != nil || st.Nlink == 0 {
			stop()
			return
		}
	}
}

// listenIn listens on a socket in dir, whose path may exceed the limit of
// socket addresses.
func listenIn(ctx context.Context, dir, name string) (net.Listener, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Unlinkat(fd, name, 0); err != nil && !errors.Is(err, unix.ENOENT) { // a killed process may have left the socket
		return nil, &os.PathError{Op: "remove", Path: filepath.Join(dir, name), Err: err}
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", fd, name))
	if err != nil {
		return nil, err
	}
	// The socket is removed with the machine's folder. Do not unlink it on
	// Close: its path goes through fd, which is closed by then.
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	return l, nil
}

// The range of user ids for gateway processes. Each process gets its own, so
// that none can signal or trace another and per-user quotas are not shared.
// Distributions and systemd do not assign ids from this range. The range ends
// before that of package confine.
const (
	firstUser = 0x70000000
	users     = 0x0ff00000
)

// user returns the user and group id for the gateway on this folder. The id
// owns no files.
func user(folder *os.File) (int, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(folder.Fd()), &st); err != nil {
		return 0, &os.PathError{Op: "stat", Path: folder.Name(), Err: err}
	}
	return firstUser + int(st.Ino%users), nil
}

// dropPrivileges drops all rights that a program that parses a machine's
// packets does not need: root, ways to regain it, and system calls.
func dropPrivileges(user int) error {
	// Let the kernel kill this process before the server when memory runs out.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("600"), 0) // if the value cannot be raised, keep it
	if err := filterCalls(); err != nil {
		return fmt.Errorf("drop privileges: %w", err)
	}
	if os.Geteuid() == 0 {
		if err := syscall.Setgroups(nil); err != nil {
			return fmt.Errorf("drop privileges: %w", err)
		}
		if err := syscall.Setresgid(user, user, user); err != nil {
			return fmt.Errorf("drop privileges: %w", err)
		}
		if err := syscall.Setresuid(user, user, user); err != nil {
			return fmt.Errorf("drop privileges: %w", err)
		}
	}
	return nil
}

// filterCalls installs a seccomp filter for all threads of the process that
// allows only the needed system calls, and prevents gaining privileges through
// exec.
func filterCalls() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	filter := unix.SockFprog{Len: uint16(len(filter_egress)), Filter: &filter_egress[0]}
	// Apply the filter and no_new_privs to all other threads too. If a thread
	// cannot be synchronized, the call returns that thread's id.
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&filter)))
	if errno != 0 {
		return fmt.Errorf("filter system calls: %w", errno)
	}
	if thread != 0 {
		return fmt.Errorf("filter system calls: thread %d has a filter of its own", thread)
	}
	return nil
}
