package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// built is the real program, as it is shipped.
func built(b *testing.B) string {
	b.Helper()
	program := filepath.Join(b.TempDir(), "sandbox")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	return program
}

// BenchmarkTrue runs /bin/true bare, in the sandbox with its default policy, and
// in a bubblewrap that confines about as much.
func BenchmarkTrue(b *testing.B) {
	program, work := built(b), b.TempDir()
	cases := []struct {
		name string
		args []string
	}{
		{"bare", []string{"/bin/true"}},
		{"sandboxed", []string{program, "--workspace", work, "--", "/bin/true"}},
	}
	if bwrap, err := exec.LookPath("bwrap"); err == nil {
		cases = append(cases, struct {
			name string
			args []string
		}{"bwrap", []string{bwrap, "--unshare-user", "--unshare-net", "--unshare-ipc", "--ro-bind", "/", "/", "--dev", "/dev", "--bind", "/tmp", "/tmp", "--bind", work, work, "--tmpfs", "/run", "--", "/bin/true"}})
	}
	for _, c := range cases {
		b.Run(c.name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				cmd := exec.Command(c.args[0], c.args[1:]...)
				cmd.Dir = work
				start := time.Now()
				if out, err := cmd.CombinedOutput(); err != nil {
					b.Fatalf("%v: %s", err, out)
				}
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			// The median: others' writing to the disk makes some many times as long.
			b.ReportMetric(float64(took[len(took)/2]), "ns/op")
		})
	}
}

// BenchmarkRules is true in a sandbox with many paths.
func BenchmarkRules(b *testing.B) {
	program := built(b)
	for _, n := range []int{10, 1000, 10000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			work := b.TempDir()
			var paths []string
			for i := range n {
				dir := filepath.Join(work, strconv.Itoa(i))
				if err := os.Mkdir(dir, 0o755); err != nil {
					b.Fatal(err)
				}
				paths = append(paths, strconv.Quote(dir))
			}
			policy := filepath.Join(b.TempDir(), "policy.json")
			if err := os.WriteFile(policy, []byte(`{"readBoundary": "workspace", "additionalReadPaths": [`+strings.Join(paths, ",")+`]}`), 0o644); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				cmd := exec.Command(program, "--policy", policy, "--workspace", work, "--", "/bin/true")
				cmd.Dir = work
				if out, err := cmd.CombinedOutput(); err != nil {
					b.Fatalf("%v: %s", err, out)
				}
			}
		})
	}
}
