package agent

import (
	"flag"
	"os"
	"regexp"
	"testing"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestDiagram(t *testing.T) {
	const file = "../../docs/explain/run-states.md"
	want := "# The states of a run\n\nMade from `internal/agent/run.go` by `go test ./internal/agent -update`.\n\n" + diagram()
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := os.ReadFile(file); string(got) != want {
		t.Errorf("%s is stale; run go test ./internal/agent -update", file)
	}
}

func TestNewBranch(t *testing.T) {
	for prompt, want := range map[string]string{
		"Fix the bug in `slug`, please do it now": `^aloft/fix-the-bug-in-slug-please-[0-9a-f]{4}$`,
		"  ":                         `^aloft/untitled-[0-9a-f]{4}$`,
		"日本語":                        `^aloft/task-[0-9a-f]{4}$`,
		"../../etc/passwd HEAD.lock": `^aloft/etc-passwd-head-lock-[0-9a-f]{4}$`,
	} {
		if got := NewBranch(prompt); !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("NewBranch(%q) = %q, want %s", prompt, got, want)
		}
	}
}
