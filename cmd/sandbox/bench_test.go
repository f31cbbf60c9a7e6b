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

// built returns the path of the real program, compiled as for a release.
func built(b *testing.B) string {
	b.Helper()
	program := filepath.Join(b.TempDir(), "sandbox")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	// Measure a copy, like an installed program: the linker's output is
	// fragmented in the page cache.
	text, err := os.ReadFile(program)
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(program+".installed", text, 0o755); err != nil {
		b.Fatal(err)
	}
	return program + ".installed"
}

// BenchmarkTrue runs /bin/true directly, in the sandbox with its default
// policy, and in a bubblewrap with about the same confinement. The measurements
// alternate, so that other load on the host affects all of them. The workspace
// of "sandboxed" contains the protected names; that of "placeholders" contains
// none.
func BenchmarkTrue(b *testing.B) {
	program, work, empty := built(b), b.TempDir(), b.TempDir()
	for _, dir := range []string{".git/hooks", ".git/info", ".vscode", ".cursor/rules", ".cursor/commands", ".cursor/worktrees", ".cursor/skills", ".cursor/agents", ".aloft", ".claude"} {
		if err := os.MkdirAll(filepath.Join(work, dir), 0o755); err != nil {
			b.Fatal(err)
		}
	}
	for _, sub := range []string{".aloft", ".claude"} {
		if err := os.CopyFS(filepath.Join(work, sub), os.DirFS(filepath.Join(work, ".cursor"))); err != nil {
			b.Fatal(err)
		}
	}
	for _, name := range []string{".git/config", ".git/info/attributes", ".cursorignore"} {
		if err := os.WriteFile(filepath.Join(work, name), nil, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	names := []string{"bare", "sandboxed", "placeholders"}
	cases := [][]string{{"/bin/true"}, {program, "--workspace", work, "--", "/bin/true"}, {program, "--workspace", empty, "--", "/bin/true"}}
	if bwrap, err := exec.LookPath("bwrap"); err == nil {
		names = append(names, "bwrap")
		cases = append(cases, []string{bwrap, "--unshare-user", "--unshare-net", "--unshare-ipc", "--ro-bind", "/", "/", "--dev", "/dev", "--bind", "/tmp", "/tmp", "--bind", work, work, "--tmpfs", "/run", "--", "/bin/true"})
	}
	const rounds = 100
	took := make([][]time.Duration, len(cases))
	for range rounds {
		for i, args := range cases {
			cmd := exec.Command(args[0], args[1:]...)
			cmd.Dir = work
			start := time.Now()
			if out, err := cmd.CombinedOutput(); err != nil {
				b.Fatalf("%v: %s", err, out)
			}
			took[i] = append(took[i], time.Since(start))
		}
	}
	for i, name := range names {
		slices.Sort(took[i])
		b.Run(name, func(b *testing.B) {
			for b.Loop() { // the time is measured above
			}
			// Report the median, because other processes' disk writes slow some rounds down many times.
			b.ReportMetric(float64(took[i][rounds/2]), "ns/op")
		})
	}
}

// BenchmarkRules runs /bin/true in a sandbox with many paths.
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
