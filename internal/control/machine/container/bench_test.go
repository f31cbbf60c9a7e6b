package container

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"aloft/internal/control/layer"
	"aloft/internal/control/machine"
)

// BenchmarkFirstByte measures the time from Create to the first byte that PID 1
// sends. The baseline is the time until a program prints in a plain bundle,
// which the same engine runs on the same root file system.
func BenchmarkFirstByte(b *testing.B) {
	runc := engines(b)["runc"]
	r := newRuntime(b, b.TempDir(), runc)
	mapped := r.mapped
	r.mapped = false // the baseline uses this machine's root, which is mounted where this process sees it
	warm := create(b, r, machine.Spec{Image: "host"})
	r.mapped = mapped

	b.Run("create", func(b *testing.B) {
		for b.Loop() {
			m, err := r.Create(b.Context(), machine.Spec{ID: "bench", Image: "host"})
			if err != nil {
				b.Fatal(err)
			}
			firstByte(b, m)
			b.StopTimer()
			if err := m.Destroy(b.Context()); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	})

	b.Run("create-plain", func(b *testing.B) { // without a user namespace
		mapped := r.mapped
		r.mapped = false
		defer func() { r.mapped = mapped }()
		for b.Loop() {
			m, err := r.Create(b.Context(), machine.Spec{ID: "bench", Image: "host"})
			if err != nil {
				b.Fatal(err)
			}
			firstByte(b, m)
			b.StopTimer()
			if err := m.Destroy(b.Context()); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	})

	b.Run("create-network", func(b *testing.B) {
		for b.Loop() {
			m, err := r.Create(b.Context(), machine.Spec{ID: "bench", Image: "host", Network: anywhere})
			if err != nil {
				b.Fatal(err)
			}
			firstByte(b, m)
			b.StopTimer()
			if err := m.Destroy(b.Context()); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	})

	// The baseline is a bundle as "runc spec" writes it, on the root of a
	// running machine, with a program that prints at once.
	bundle := b.TempDir()
	spec := exec.Command(runc, "spec", "--bundle", bundle)
	if out, err := spec.CombinedOutput(); err != nil {
		b.Fatalf("runc spec: %v: %s", err, out)
	}
	path := filepath.Join(bundle, "config.json")
	text, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	text = []byte(strings.NewReplacer(
		`"terminal": true`, `"terminal": false`, `"sh"`, `"/pod-daemon"`,
		`"path": "rootfs"`, `"path": "`+warm.(*Machine).path("rootfs")+`"`,
		`"readonly": true`, `"readonly": false`).Replace(string(text)))
	text = dropRlimits(b, text)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		b.Fatal(err)
	}
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			cmd := exec.Command(runc, "--root", filepath.Join(bundle, "state"), "run", "--bundle", bundle, "bare")
			out, err := cmd.StderrPipe()
			if err != nil {
				b.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			_, _ = io.Copy(io.Discard, out)
			_ = cmd.Wait() // the guest fails at once because it has no socket name
			b.StartTimer()
		}
	})
}

// firstByte waits for the first byte from the machine's guest.
func firstByte(b *testing.B, m machine.Machine) {
	b.Helper()
	if r := ask(b, m); r.Starts != 1 {
		b.Fatalf("the guest answers %+v", r)
	}
}

func BenchmarkDestroy(b *testing.B) {
	r := newRuntime(b, b.TempDir(), engines(b)["runc"])
	for b.Loop() {
		b.StopTimer()
		m, err := r.Create(b.Context(), machine.Spec{ID: "bench", Image: "host"})
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if err := m.Destroy(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// dropRlimits removes the rlimits from a config.json. Setting them needs a
// privilege that not every host grants, and machines do not set rlimits either.
func dropRlimits(b *testing.B, config []byte) []byte {
	b.Helper()
	var c specs.Spec
	if err := json.Unmarshal(config, &c); err != nil {
		b.Fatal(err)
	}
	c.Process.Rlimits = nil
	for _, bind := range []string{"/usr"} {
		c.Mounts = append(c.Mounts, specs.Mount{Destination: bind, Type: "bind", Source: bind, Options: []string{"bind", "ro"}})
	}
	out, err := json.Marshal(c)
	if err != nil {
		b.Fatal(err)
	}
	return out
}

// BenchmarkSnapshot uses a disk with 50,000 small files (1 GiB). It compares
// freezing the disk with copying it, a start from the snapshot with a start
// from an empty disk, and the disk usage of 20 machines based on the snapshot
// with that of one.
func BenchmarkSnapshot(b *testing.B) {
	r := newRuntime(b, b.TempDir(), engines(b)["runc"])
	m := create(b, r, machine.Spec{Image: "host"}).(*Machine)
	empty, full := layer.NewID(layer.Snapshot), layer.NewID(layer.Snapshot)
	save := func(id string) time.Duration {
		b.Helper()
		if err := m.Stop(b.Context()); err != nil {
			b.Fatal(err)
		}
		begun := time.Now()
		if err := m.Freeze(b.Context(), id); err != nil {
			b.Fatal(err)
		}
		return time.Since(begun)
	}
	save(empty)
	if err := m.Restart(b.Context()); err != nil {
		b.Fatal(err)
	}
	made := ask(b, m, "sh", "-c", `cd /var && head -c 20971 /dev/urandom > one &&
		for d in $(seq 50); do mkdir -p many/$d && seq 1000 | sed "s,^,many/$d/," | xargs sh -c 'tee "$@" < one > /dev/null' sh || exit 1; done; find many -type f | wc -l`)
	if made.Output != "50000\n" {
		b.Fatalf("the machine made %+v", made)
	}
	unix.Sync() // flush first, so that neither measurement includes earlier writes
	copied := filepath.Join(b.TempDir(), "copy")
	begun := time.Now()
	if out, err := exec.Command("cp", "-a", m.path("upper"), copied).CombinedOutput(); err != nil {
		b.Fatalf("cp: %v: %s", err, out)
	}
	unix.Sync()
	copying := time.Since(begun)
	if err := os.RemoveAll(copied); err != nil {
		b.Fatal(err)
	}
	freezing := save(full)
	one, many := disks(b, r, full)
	for _, from := range []struct{ name, id string }{{"empty", empty}, {"50000-files", full}} {
		b.Run(from.name, func(b *testing.B) {
			for b.Loop() {
				m, err := r.Create(b.Context(), machine.Spec{ID: "bench", Image: "host", Layer: from.id})
				if err != nil {
					b.Fatal(err)
				}
				ask(b, m)
				b.StopTimer()
				if err := m.Destroy(b.Context()); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			b.ReportMetric(float64(freezing), "ns/freeze")
			b.ReportMetric(float64(copying), "ns/copy")
			b.ReportMetric(float64(one), "bytes/one")
			b.ReportMetric(float64(many), "bytes/many")
		})
	}
}

// disks returns the disk usage of one machine that starts from a layer, and of
// twenty such machines. Both include the layer.
func disks(b *testing.B, r *Runtime, id string) (one, many int64) {
	b.Helper()
	dirs, err := r.layers.Claim("bench", b.TempDir(), id)
	if err != nil {
		b.Fatal(err)
	}
	for _, dir := range dirs {
		c := count{seen: map[uint64]bool{}}
		if err := c.tree(b.Context(), dir); err != nil {
			b.Fatal(err)
		}
		one += c.bytes
	}
	many = one
	for i := range 20 {
		m, err := r.Create(b.Context(), machine.Spec{ID: fmt.Sprintf("disk-%d", i), Image: "host", Layer: id})
		if err != nil {
			b.Fatal(err)
		}
		ask(b, m)
		n, err := m.(machine.Measured).DiskBytes(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		if many += n; i == 0 {
			one += n
		}
		if err := m.Destroy(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	return one, many
}
