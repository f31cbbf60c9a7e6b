package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"aloft/internal/control/layer"
	"aloft/internal/control/machine"
	"aloft/internal/fault"
)

const freezeChild = "freeze"

// another creates a second machine from a layer.
func another(t *testing.T, r *Runtime, id string) machine.Machine {
	t.Helper()
	m, err := r.Create(t.Context(), machine.Spec{ID: "m-2", Image: "host", Layer: id})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Destroy(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return m
}

// freezer runs a server that is killed at the given step of freezing a machine.
func freezer(dir, engine, bin, step, id string) int {
	r, err := New(Config{Dir: dir, RuntimePath: engine, Binaries: bin})
	if err == nil {
		r.step = func(at string) {
			if at == step {
				_ = unix.Kill(os.Getpid(), unix.SIGKILL)
				select {}
			}
		}
		var m machine.Machine
		if m, err = r.Open(context.Background(), "m-1"); err == nil {
			err = m.(*Machine).Freeze(context.Background(), id)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// TestKilledWhileFreezing kills the server between the steps of a freeze. The
// machine, and machines based on the layer, must restart with all their files.
func TestKilledWhileFreezing(t *testing.T) {
	runc := engines(t)["runc"]
	bin, err := guest()
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []string{"freeze: noted", "freeze: frozen", "stand: upper"} {
		t.Run(step, func(t *testing.T) {
			dir := t.TempDir()
			r := newRuntime(t, dir, runc)
			m := create(t, r, machine.Spec{ID: "m-1", Image: "host"}).(*Machine)
			ask(t, m, "sh", "-c", "echo work > /var/work; rm /etc/inputrc; chmod 701 /var")
			if err := m.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			// Freeze twice, so that the interrupted freeze is not the machine's
			// first.
			if err := m.Freeze(t.Context(), layer.NewID(layer.Snapshot)); err != nil {
				t.Fatal(err)
			}
			id := layer.NewID(layer.Snapshot)
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = append(os.Environ(), childEnv+"="+strings.Join([]string{dir, runc, bin, step, id, freezeChild}, "|"))
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != -1 {
				t.Fatalf("the server was not killed: %v: %s", err, out)
			}
			after := newRuntime(t, dir, runc)
			again, err := after.Open(t.Context(), "m-1")
			if err != nil {
				t.Fatal(err)
			}
			if err := again.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			check := func(m machine.Machine) {
				t.Helper()
				const want = "work\n701\ngone\n"
				if got := ask(t, m, "sh", "-c", "cat /var/work; stat -c %a /var; [ -e /etc/inputrc ] || echo gone"); got.Output != want {
					t.Errorf("%s holds %q, want %q", m.ID(), got.Output, want)
				}
			}
			check(again)
			if after.layers.Has(id) {
				check(another(t, after, id))
			}
		})
	}
}

// TestFreezeWhileTheAgentWrites stops the machine in the middle of writes. The
// snapshot must contain every file that was completely written, and no partial
// file.
func TestFreezeWhileTheAgentWrites(t *testing.T) {
	for name, path := range engines(t) {
		t.Run(name, func(t *testing.T) {
			r := newRuntime(t, t.TempDir(), path)
			m := create(t, r, machine.Spec{ID: "m-1", Image: "host"}).(*Machine)
			ask(t, m, "sh", "-c", `mkdir -p /var/w; setsid sh -c 'n=0; while :; do n=$((n+1)); echo $n > /var/w/tmp; mv /var/w/tmp /var/w/$n; done' </dev/null >/dev/null 2>&1 &
				while [ ! -e /var/w/50 ]; do :; done`)
			if err := m.Freeze(t.Context(), layer.NewID(layer.Snapshot)); err == nil {
				t.Fatal("a machine that runs was frozen")
			}
			if err := m.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			id := layer.NewID(layer.Snapshot)
			if err := m.Freeze(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			from := another(t, r, id)
			got := ask(t, from, "sh", "-c", `cd /var/w; n=1; while [ -e $n ]; do [ "$(cat $n)" = $n ] || echo "$n is torn"; n=$((n+1)); done; [ $n -gt 50 ] && echo whole`)
			if got.Output != "whole\n" {
				t.Errorf("got %q", got.Output)
			}
		})
	}
}

func TestLayerNeedsItsImage(t *testing.T) {
	r := newRuntime(t, t.TempDir(), engines(t)["runc"])
	m := create(t, r, machine.Spec{ID: "m-1", Image: "host"}).(*Machine)
	if err := m.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	id := layer.NewID(layer.Build)
	if err := m.Freeze(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := os.MkdirAll(root+"/bin", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(root+"/bin/sh", []byte("#!"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := r.Create(t.Context(), machine.Spec{ID: "m-2", Image: "rootfs:" + root, Layer: id})
	if fault.Of(err).Code != "image_mismatch" {
		t.Errorf("another image: %v", err)
	}
	if _, err := r.Create(t.Context(), machine.Spec{ID: "m-2", Image: "host", Layer: layer.NewID(layer.Build)}); fault.Of(err).Code != "snapshot_not_found" {
		t.Errorf("an unknown layer: %v", err)
	}
	if ids, _ := r.List(t.Context()); len(ids) != 1 {
		t.Errorf("List is %v", ids)
	}
}
