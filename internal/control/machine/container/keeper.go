package container

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"aloft/internal/control/machine"
	"aloft/internal/control/machine/container/link"
	"aloft/internal/control/machine/container/process"
)

// The backoff between restarts of an egress process that keeps dying grows from
// the first to the longest pause. A process that ran for at least the longest
// pause is restarted at once.
const (
	firstPause   = 20 * time.Millisecond
	longestPause = 5 * time.Second
)

// keepGateway restarts the machine's egress process whenever it dies, until the
// machine stops or the runtime is closed.
func (r *Runtime) keepGateway(m *Machine) {
	init, err := m.openInit()
	if err != nil {
		return // the machine has already stopped
	}
	r.working.Go(func() {
		ctx, over := context.WithCancel(r.ctx)
		defer over()
		r.working.Go(func() {
			defer over()
			_ = process.Wait(ctx, init) // when the machine ends, for whatever reason, stop watching
		})
		pause := time.Duration(0)
		for ctx.Err() == nil {
			began := time.Now()
			err := m.awaitGatewayEnd(ctx)
			if ctx.Err() != nil {
				return
			}
			if time.Since(began) > longestPause {
				pause = 0
			}
			wait := time.NewTimer(pause)
			select {
			case <-wait.C:
			case <-ctx.Done():
				wait.Stop()
				return
			}
			pause = min(max(firstPause, 2*pause), longestPause)
			if err == nil {
				err = m.reviveGateway(ctx)
			}
			switch {
			case errors.Is(err, errNoGateway), errors.Is(err, machine.ErrNotFound):
				return
			case err != nil && ctx.Err() == nil:
				r.log.Error("a machine has no network: its egress process cannot be restarted", "machine", m.id, "error", err)
			}
		}
	})
}

// errNoGateway means that the machine has no egress process to watch.
var errNoGateway = errors.New("the machine has no gateway")

// awaitGatewayEnd waits until the egress process has ended. It returns nil at
// once if none runs.
func (m *Machine) awaitGatewayEnd(ctx context.Context) error {
	fd, err := process.Open(m.path(filepath.Join("link", gatewayProcess)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return process.Wait(ctx, fd)
}

// reviveGateway restarts the egress process, unless it runs or the machine has
// stopped. The machine's open connections are lost; it can make new ones.
func (m *Machine) reviveGateway(ctx context.Context) error {
	unlock, err := m.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if fd, err := process.Open(m.path(filepath.Join("link", gatewayProcess))); err == nil {
		return unix.Close(fd) // another process has restarted it
	}
	init, err := m.openInit()
	if err != nil {
		return errNoGateway
	}
	defer func() { _ = unix.Close(init) }()
	rec, err := m.record()
	if err != nil {
		return err
	}
	if rec.Spec.Network.Mode == "" || len(m.r.conf.Gateway) == 0 {
		return errNoGateway
	}
	// A killed server may have started a process without recording it.
	if err := process.KillBearing(ctx, m.gatewayFlag()); err != nil {
		return err
	}
	if err := os.MkdirAll(m.path("link"), 0o700); err != nil {
		return err
	}
	device, err := link.Reopen(init)
	if err != nil {
		return err
	}
	defer func() { _ = device.Close() }()
	wait, err := m.runGateway(rec.Spec, device)
	if err != nil {
		return err
	}
	if err := wait(ctx); err != nil {
		return errors.Join(fmt.Errorf("network: %w", err), process.KillBearing(context.WithoutCancel(ctx), m.gatewayFlag()))
	}
	m.r.log.Warn("restarted the egress process of a machine; its connections were cut", "machine", m.id)
	return nil
}
