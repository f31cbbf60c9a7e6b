// Package process identifies processes of the host even after a restart of the
// server or the reuse of a PID. It waits for their end, and kills processes
// that have a given argument.
package process

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"aloft/internal/atomicfile"
)

// identity is the content of a file that [Record] writes.
type identity struct {
	PID   int
	Start uint64 // clock ticks since boot
	Boot  string // the kernel's boot id
}

// Record writes the identity of the process pid to a file. A process that has
// already ended is recorded too.
func Record(path string, pid int) error {
	start, _, err := readStart(pid)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // a missing process has already ended: the start did not fail
	}
	boot, err := bootID()
	if err != nil {
		return err
	}
	data, err := json.Marshal(identity{PID: pid, Start: start, Boot: boot})
	if err != nil {
		return err
	}
	return atomicfile.WriteUnsynced(path, data, 0o600)
}

// Open returns a pidfd of the process recorded in a file, or an error that wraps
// [fs.ErrNotExist] if there is no file or the process has ended.
func Open(path string) (fd int, err error) {
	p, err := read(path)
	if err != nil {
		return -1, err
	}
	boot, err := bootID()
	if err != nil {
		return -1, err
	}
	if boot != p.Boot || p.Start == 0 {
		return -1, fs.ErrNotExist
	}
	fd, err = unix.PidfdOpen(p.PID, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.ESRCH) {
		return -1, fs.ErrNotExist
	}
	if err != nil {
		return -1, err
	}
	// Compare only after opening the pidfd: from here on the PID cannot be
	// reused.
	start, state, err := readStart(p.PID)
	if err == nil && (start != p.Start || state == 'Z' || state == 'X') {
		err = fs.ErrNotExist
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// PID returns the PID recorded in a file. The process may have ended.
func PID(path string) (int, error) {
	p, err := read(path)
	return p.PID, err
}

func read(path string) (p identity, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return p, err
	}
	return p, json.Unmarshal(data, &p)
}

// Wait waits in the poller until the process of a non-blocking pidfd has ended,
// and closes the pidfd. If ctx ends first, it returns the cause.
func Wait(ctx context.Context, fd int) error {
	f := os.NewFile(uintptr(fd), "pidfd") // non-blocking, so the poller accepts it
	defer func() { _ = f.Close() }()
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		var n int
		n, failed = unix.Poll(p, 0)
		if errors.Is(failed, unix.EINTR) {
			failed = nil
			return false
		}
		return failed != nil || n > 0
	})
	if ctx.Err() != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		return context.Cause(ctx)
	}
	return errors.Join(err, failed)
}

// KillBearing kills all processes with arg among their arguments, except this
// process, and returns when they have ended.
func KillBearing(ctx context.Context, arg string) error {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if !hasArg(pid, arg) {
			continue
		}
		fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
		if err != nil {
			continue // the process has exited
		}
		if !hasArg(pid, arg) {
			_ = unix.Close(fd)
			continue
		}
		if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			_ = unix.Close(fd)
			return err
		}
		if err := Wait(ctx, fd); err != nil {
			return err
		}
	}
	return nil
}

func hasArg(pid int, arg string) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return false
	}
	for part := range bytes.SplitSeq(line, []byte{0}) {
		if string(part) == arg {
			return true
		}
	}
	return false
}

// readStart returns when a process started, in clock ticks since boot, and
// its state letter.
func readStart(pid int) (start uint64, state byte, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, unix.ESRCH) {
		err = fs.ErrNotExist
	}
	if err != nil {
		return 0, 0, err
	}
	return parseStat(data)
}

// parseStat parses /proc/PID/stat. The process chooses its name, which may
// contain anything, so the fields are counted from the last parenthesis.
func parseStat(data []byte) (start uint64, state byte, err error) {
	end := bytes.LastIndexByte(data, ')')
	fields := strings.Fields(string(data[end+1:]))
	if end < 0 || len(fields) < 20 {
		return 0, 0, errors.New("cannot parse /proc/PID/stat")
	}
	start, err = strconv.ParseUint(fields[19], 10, 64)
	return start, fields[0][0], err
}

func bootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(data)), err
}
