package container

import (
	"os"
	"path/filepath"
	"testing"

	"aloft/internal/control/machine"
)

// TestUpgrade checks that a machine that a newer server starts again has that
// server's programs, and keeps its files.
func TestUpgrade(t *testing.T) {
	for name, engine := range engines(t) {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			old := newRuntime(t, dir, engine)
			m := create(t, old, machine.Spec{ID: "m-1", Image: "host"}).(*Machine)
			ask(t, m, "sh", "-c", "echo work > /var/work")
			if err := m.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			conf := config(t, dir, engine)
			newer := t.TempDir()
			if err := os.CopyFS(newer, os.DirFS(conf.Binaries)); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(newer, "rg"), []byte("newer"), 0o755); err != nil { //nolint:gosec // a program
				t.Fatal(err)
			}
			conf.Binaries = newer
			for range 2 { // once with the record from before the upgrade, and once with the new record
				again, err := start(t, conf).Open(t.Context(), "m-1")
				if err != nil {
					t.Fatal(err)
				}
				if err := again.Restart(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := ask(t, again, "sh", "-c", "cat /exec-daemon/rg /var/work"); got.Output != "newerwork\n" {
					t.Errorf("the machine has %q", got.Output)
				}
				if err := again.(*Machine).Stop(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
