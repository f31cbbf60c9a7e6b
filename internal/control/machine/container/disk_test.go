package container

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"aloft/internal/control/machine"
	"aloft/internal/control/machine/machinetest"
)

func TestDiskBytes(t *testing.T) {
	for name, engine := range engines(t) {
		t.Run(name, func(t *testing.T) {
			r := newRuntime(t, t.TempDir(), engine)
			made, err := r.Create(t.Context(), machine.Spec{ID: "m", Image: "host"})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := made.Destroy(context.WithoutCancel(t.Context())); err != nil {
					t.Error(err)
				}
			})
			machinetest.Connect(t, made)
			m, ok := made.(*Machine)
			if !ok || !m.Running() {
				t.Fatalf("%T does not run", made)
			}
			used := func() int64 {
				t.Helper()
				n, err := m.DiskBytes(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
			const mib = 1 << 20
			before := used()
			if before <= 0 || before > mib {
				t.Errorf("a new machine takes %d bytes", before)
			}
			// Write to the machine's own layer as its processes would.
			upper := m.path("upper")
			write := func(path string, n int) {
				t.Helper()
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, make([]byte, n), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write(filepath.Join(upper, "a/b/c"), 3*mib)
			for _, err := range []error{
				os.Link(filepath.Join(upper, "a/b/c"), filepath.Join(upper, "a/twin")), // the same file
				os.Symlink("/", filepath.Join(upper, "a/out")),
				unix.Mkfifo(filepath.Join(upper, "a/fifo"), 0o600),
				os.WriteFile(filepath.Join(upper, "a/sparse"), nil, 0o600),
				os.Truncate(filepath.Join(upper, "a/sparse"), 1<<40),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			if n := used(); n < 3*mib || n > before+3*mib+64<<10 {
				t.Errorf("3 MiB more are %d bytes", n)
			}
			if err := m.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			if m.Running() {
				t.Error("it runs")
			}
			if err := m.Stop(t.Context()); err != nil {
				t.Errorf("stopped twice: %v", err)
			}
			if n := used(); n < 3*mib {
				t.Errorf("its disk is gone: %d bytes", n)
			}
			if err := m.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			machinetest.Connect(t, m)
		})
	}
}
