package container

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"aloft/internal/control/cgroup"
	"aloft/internal/control/machine/container/process"
)

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
	return process.Record(m.path("init.json"), pid)
}

// openInit returns a pidfd of the machine's PID 1, or an error that wraps
// [fs.ErrNotExist] if it does not run.
func (m *Machine) openInit() (fd int, err error) { return process.Open(m.path("init.json")) }

// rootOfInit returns the path on the host of the root directory of the
// machine's PID 1, or "" if the process does not run.
func (m *Machine) rootOfInit() string {
	if !m.running() {
		return ""
	}
	pid, err := process.PID(m.path("init.json"))
	if err != nil {
		return ""
	}
	return fmt.Sprintf("/proc/%d/root", pid)
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
	if err := process.Wait(ctx, fd); err != nil {
		return fmt.Errorf("wait for machine %s: %w", m.id, err)
	}
	return nil
}

// kill kills every process of the machine, including leftover processes of the
// runtime, and returns when they are gone.
func (m *Machine) kill(ctx context.Context) error {
	// A runtime process that outlived its server would create further processes
	// and files.
	if err := process.KillBearing(ctx, "--root="+m.path("state")); err != nil {
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
	if err := cgroup.Kill(ctx, m.inside()); err != nil {
		return err
	}
	// Kill the egress process last, so that it logs the machine's last traffic.
	if err := process.KillBearing(ctx, m.gatewayFlag()); err != nil {
		return err
	}
	return cgroup.Kill(ctx, m.cgroup)
}

// awaitEnd waits until the machine's killed PID 1 and with it all processes of
// the machine have ended, and closes fd, its pidfd. Meanwhile it thaws the
// machine's cgroups, because processes that still run may freeze others.
func (m *Machine) awaitEnd(ctx context.Context, fd int) error {
	ended := make(chan error, 1)
	go func() { ended <- process.Wait(ctx, fd) }()
	again := time.NewTicker(thawInterval)
	defer again.Stop()
	for {
		if err := cgroup.Thaw(m.inside()); err != nil {
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
