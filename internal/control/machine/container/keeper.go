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
)

// Between the starts of a gateway that does not stay: from the first to the
// longest pause. One that has stayed for the longest is started at once.
const (
	firstPause   = 20 * time.Millisecond
	longestPause = 5 * time.Second
)

// keepGateway starts the machine's gateway again whenever it dies, for as long
// as the machine's present life and this runtime last.
func (r *Runtime) keepGateway(m *Machine) {
	init, err := m.openInit()
	if err != nil {
		return // it has ended already
	}
	r.working.Go(func() {
		ctx, over := context.WithCancel(r.ctx)
		defer over()
		r.working.Go(func() {
			defer over()
			_ = waitExit(ctx, init) // however it ends, there is nobody to keep a gateway for
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
				r.log.Error("the network of a machine is down: its gateway does not start again", "machine", m.id, "error", err)
			}
		}
	})
}

// errNoGateway says that there is nothing to keep.
var errNoGateway = errors.New("the machine has no gateway")

// awaitGatewayEnd returns nil when the gateway does not run.
func (m *Machine) awaitGatewayEnd(ctx context.Context) error {
	fd, err := m.openProcess(filepath.Join("link", gatewayProcess))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return waitExit(ctx, fd)
}

// reviveGateway starts the gateway again, unless it runs or the machine does
// not. The machine's connections are gone, and it can make new ones.
func (m *Machine) reviveGateway(ctx context.Context) error {
	unlock, err := m.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if fd, err := m.openProcess(filepath.Join("link", gatewayProcess)); err == nil {
		return unix.Close(fd) // somebody else was faster
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
	// A server that was killed may have started one and not noted it.
	if err := killBearing(ctx, m.gatewayFlag()); err != nil {
		return err
	}
	if err := os.MkdirAll(m.path("link"), 0o700); err != nil {
		return err
	}
	device, err := remakeLink(init)
	if err != nil {
		return err
	}
	defer func() { _ = device.Close() }()
	wait, err := m.runGateway(rec.Spec, device)
	if err != nil {
		return err
	}
	if err := wait(ctx); err != nil {
		return errors.Join(fmt.Errorf("network: %w", err), killBearing(context.WithoutCancel(ctx), m.gatewayFlag()))
	}
	m.r.log.Warn("the gateway of a machine had died and was started again: its connections were cut", "machine", m.id)
	return nil
}
