package shell_test

import (
	"os/exec"
	"testing"

	"aloft/internal/policy/shell"
)

// BenchmarkBash measures the analysis of a command line. The baseline is bash,
// which parses the line without running it.
func BenchmarkBash(b *testing.B) {
	const line = `cd web && npm ci --silent | tee log.txt; for f in a b c; do git -C "$PWD" diff -- "$f" | head -20; done`
	b.Run("ours", func(b *testing.B) {
		list := shell.Compile([]string{"npm", "tee", "git", "head", "cd"})
		for b.Loop() {
			list.Judge(line)
		}
	})
	b.Run("bash", func(b *testing.B) {
		for b.Loop() {
			if out, err := exec.Command("bash", "-n", "-c", line).CombinedOutput(); err != nil {
				b.Fatalf("%v: %s", err, out)
			}
		}
	})
}
