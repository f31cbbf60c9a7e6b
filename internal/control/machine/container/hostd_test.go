package container

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"aloft/internal/control/hostd"
	"aloft/internal/control/machine"
	"aloft/internal/control/machine/machinetest"
	"aloft/internal/control/mirror"
)

// served is the runtime of a server that uses the container runtime of its
// host-daemon.
type served struct {
	machine.Runtime
	here *Runtime // the host-daemon's runtime
}

// overHostDaemon starts a host-daemon for the runtime, and returns the runtime
// that a server gets from it.
func overHostDaemon(t *testing.T, dir string, r *Runtime) served {
	t.Helper()
	git, err := mirror.NewLocal(mirror.LocalConfig{Dir: filepath.Join(dir, "mirrors"), Server: os.Geteuid()})
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("@aloft-test-%d-%p", os.Getpid(), r)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: address, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	d := hostd.New(hostd.Config{
		User: os.Geteuid(), Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Load: func() ([]byte, map[string][]byte, error) { return nil, nil, nil },
		Open: func(context.Context, []byte) (*hostd.Opened, error) {
			return &hostd.Opened{
				Host:  hostd.Host{Machines: r, Layers: r.Layers(), Git: git, Close: func() error { return nil }},
				Allow: func(machine.Spec) error { return nil }, AllowImage: func(string) error { return nil },
			}, nil
		},
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context())) // the cleanup of the machines needs the daemon after the test
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := d.Serve(ctx, l); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); serving.Wait() })
	c := hostd.NewClient(address)
	loaded, err := c.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	host, err := c.Open(t.Context(), loaded)
	if err != nil {
		t.Fatal(err)
	}
	return served{host.Machines, r}
}

// TestRuntimeOverHostDaemon runs the suite for all runtimes through a
// host-daemon.
func TestRuntimeOverHostDaemon(t *testing.T) {
	for name, path := range engines(t) {
		t.Run(name, func(t *testing.T) {
			machinetest.Run(t, machinetest.Harness{
				New: func(t *testing.T, dir string) machine.Runtime {
					return overHostDaemon(t, dir, newRuntime(t, dir, path))
				},
				Spec:     machine.Spec{Image: "host"},
				Standin:  true,
				Kill:     func(t *testing.T, r machine.Runtime, id string) { killInit(t, r.(served).here, id) },
				HalfMade: halfMade,
			})
		})
	}
}
