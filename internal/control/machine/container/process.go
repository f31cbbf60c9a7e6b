package container

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

// knownProcess identifies a process on the host, the machine's PID 1 or its
// egress process, in a way that survives reuse of its PID.
type knownProcess struct {
	PID   int
	Start uint64 // clock ticks since boot
	Boot  string // the kernel's boot id
}

// remember records the process that the runtime has just started as the
// machine's PID 1.
func (m *Machine) remember() error {
	data, err := os.ReadFile(m.path("init.pid"))
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return fmt.Errorf("the runtime's pid file: %w", err)
	}
	return m.rememberProcess("init.json", pid)
}

// rememberProcess records the identity of process pid in a file of the machine.
func (m *Machine) rememberProcess(name string, pid int) error {
	start, _, err := processStart(pid)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // a missing process has already ended, which is not a failed start
	}
	boot, err := bootID()
	if err != nil {
		return err
	}
	data, err := json.Marshal(knownProcess{PID: pid, Start: start, Boot: boot})
	if err != nil {
		return err
	}
	return atomicfile.WriteUnsynced(m.path(name), data, 0o600)
}

// openInit returns a pidfd of the machine's PID 1, or an error that wraps
// [fs.ErrNotExist] if it does not run.
func (m *Machine) openInit() (fd int, err error) { return m.openProcess("init.json") }

// openProcess returns a pidfd of the process recorded in a file of the machine,
// or an error that wraps [fs.ErrNotExist] if it does not run.
func (m *Machine) openProcess(name string) (fd int, err error) {
	data, err := os.ReadFile(m.path(name))
	if err != nil {
		return -1, err
	}
	var p knownProcess
	if err := json.Unmarshal(data, &p); err != nil {
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
	start, state, err := processStart(p.PID)
	if err == nil && (start != p.Start || state == 'Z' || state == 'X') {
		err = fs.ErrNotExist
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// rootOfInit is the root that the machine's PID 1 has, as it is seen from here, or
// "" if it does not run.
func (m *Machine) rootOfInit() string {
	fd, err := m.openInit()
	if err != nil {
		return ""
	}
	defer func() { _ = unix.Close(fd) }()
	var p knownProcess
	data, err := os.ReadFile(m.path("init.json"))
	if err != nil || json.Unmarshal(data, &p) != nil {
		return ""
	}
	return fmt.Sprintf("/proc/%d/root", p.PID)
}

func (m *Machine) running() bool {
	fd, err := m.openInit()
	if err != nil {
		return false
	}
	_ = unix.Close(fd)
	return true
}

// Wait implements [machine.Machine].
func (m *Machine) Wait(ctx context.Context) error {
	fd, err := m.openInit()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("wait for machine %s: %w", m.id, err)
	}
	if err := waitExit(ctx, fd); err != nil {
		return fmt.Errorf("wait for machine %s: %w", m.id, err)
	}
	return nil
}

// waitExit waits in the poller until the process of a pidfd has ended, and
// closes the pidfd.
func waitExit(ctx context.Context, fd int) error {
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

// kill kills every process of the machine, including leftover processes of the
// runtime, and returns when they are gone.
func (m *Machine) kill(ctx context.Context) error {
	// A runtime process that outlived its server would keep creating things.
	if err := killBearing(ctx, "--root="+m.path("state")); err != nil {
		return err
	}
	fd, err := m.openInit()
	if err == nil {
		if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			_ = unix.Close(fd)
			return err
		}
		if err := m.awaitEnd(ctx, fd); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := killCgroup(ctx, m.inside()); err != nil {
		return err
	}
	// Kill the egress process last, so that it logs the machine's last traffic.
	if err := killBearing(ctx, m.gatewayFlag()); err != nil {
		return err
	}
	return killCgroup(ctx, m.cgroup)
}

// awaitEnd waits until the machine's PID 1, which has been killed, has ended with
// all processes of the machine, and closes its pidfd. Until then, processes that
// have not yet been killed may freeze others.
func (m *Machine) awaitEnd(ctx context.Context, fd int) error {
	ended := make(chan error, 1)
	go func() { ended <- waitExit(ctx, fd) }()
	again := time.NewTicker(thawInterval)
	defer again.Stop()
	for {
		if err := thaw(m.inside()); err != nil {
			return err
		}
		select {
		case err := <-ended:
			return err
		case <-again.C:
		}
	}
}

// thawInterval is how often frozen processes of a killed machine are thawed.
const thawInterval = 100 * time.Millisecond

// killBearing kills every process that has arg among its arguments.
func killBearing(ctx context.Context, arg string) error {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if !bears(pid, arg) {
			continue
		}
		fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
		if err != nil {
			continue // it has exited
		}
		if !bears(pid, arg) {
			_ = unix.Close(fd)
			continue
		}
		if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			_ = unix.Close(fd)
			return err
		}
		if err := waitExit(ctx, fd); err != nil {
			return err
		}
	}
	return nil
}

func bears(pid int, arg string) bool {
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

// processStart returns when a process started, in clock ticks since boot, and
// its state letter.
func processStart(pid int) (start uint64, state byte, err error) {
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
