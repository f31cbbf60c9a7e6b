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

// What a gateway's process is given, beside its folder.
const (
	deviceFD = 3 // the TAP device
	readyFD  = 4 // written to once it serves
)

// gatewayMemory is the size, in bytes, at which the collector works harder. The
// bounds of package egress keep a gateway below it in ordinary work.
const gatewayMemory = 512 << 20

// gatewayThreads is how many of the process's goroutines run at once. What is
// done for a packet is done by several, each for some microseconds: to wake
// another thread for the next costs more than it does, and while one writes to
// the device the stack spins on another for the connection that it holds. With
// two, a connection takes twice the time and a download half as long again. It
// bounds what a machine's traffic takes of the host, too.
const gatewayThreads = 1

// goneEvery is how often a process looks whether its folder is still there.
const goneEvery = 2 * time.Second

// RunProcess is the process of one gateway. It finds in dir its policy, as
// policy.json, and listens there on gateway.sock; descriptor 3 is the device,
// and descriptor 4 is written to and closed once it serves. It keeps its log in
// the folder logs; "" keeps none. It serves until ctx ends or
// somebody removes dir.
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
		logger.Warn("nobody waits for this gateway", "error", err)
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

// listenIn listens in a folder whose path may be too long for an address.
func listenIn(ctx context.Context, dir, name string) (net.Listener, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Unlinkat(fd, name, 0); err != nil && !errors.Is(err, unix.ENOENT) { // of one that was killed
		return nil, &os.PathError{Op: "remove", Path: filepath.Join(dir, name), Err: err}
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", fd, name))
	if err != nil {
		return nil, err
	}
	// The folder goes with the machine, and the path by which we know it is
	// another's once fd is closed.
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	return l, nil
}

// Users that processes of gateways become: each one of its own, so that none can
// signal or trace another and the kernel's quotas of users are not shared. The
// range is one that distributions and systemd give to nobody.
const (
	firstUser = 0x70000000
	users     = 0x0ffe0000
)

// user is the number of a user and of a group that own nothing: that of the
// gateway whose folder this is.
func user(folder *os.File) (int, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(folder.Fd()), &st); err != nil {
		return 0, &os.PathError{Op: "stat", Path: folder.Name(), Err: err}
	}
	return firstUser + int(st.Ino%users), nil
}

// dropPrivileges gives away what a program that reads a machine's packets should
// not have: root, the way back to it, and all system calls that it does not need.
func dropPrivileges(user int) error {
	// The kernel takes it before the server when memory runs out.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("600"), 0) // where it may not be raised, it stays
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

// filterCalls keeps all threads of the process from system calls that it does not
// need, and from gaining privileges by another program.
func filterCalls() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	filter := unix.SockFprog{Len: uint16(len(filter_egress)), Filter: &filter_egress[0]}
	// The other threads take over the filter and no_new_privs. One that cannot is
	// named by its number.
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&filter)))
	if errno != 0 {
		return fmt.Errorf("filter system calls: %w", errno)
	}
	if thread != 0 {
		return fmt.Errorf("filter system calls: thread %d has a filter of its own", thread)
	}
	return nil
}
