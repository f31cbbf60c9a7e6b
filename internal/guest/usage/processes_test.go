package usage

import (
	"fmt"
	"os"
	"testing"
)

func TestParseStat(t *testing.T) {
	t.Parallel()
	tests := []struct {
		line        string
		pid, parent int
		state       byte
		ok          bool
	}{
		{"12 (sh) S 1 12 12 0", 12, 1, 'S', true},
		{"12 (a) Z 7 (b) R 3 4", 12, 3, 'R', true},
		{"12 (two\nlines) Z 1", 12, 1, 'Z', true},
		{"12 () S 1", 12, 1, 'S', true},
		{"12 (sh) S", 0, 0, 0, false},
		{"(sh) S 1", 0, 0, 0, false},
		{"x (sh) S 1", 0, 0, 0, false},
		{"12 sh S 1", 0, 0, 0, false},
		{"", 0, 0, 0, false},
	}
	for _, tt := range tests {
		pid, parent, state, ok := parseStat([]byte(tt.line))
		if pid != tt.pid || parent != tt.parent || state != tt.state || ok != tt.ok {
			t.Errorf("%q: %d %d %q %t", tt.line, pid, parent, state, ok)
		}
	}
	line, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		t.Fatal(err)
	}
	if pid, parent, _, ok := parseStat(line); !ok || pid != os.Getpid() || parent != os.Getppid() {
		t.Errorf("own: %d %d %t", pid, parent, ok)
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add("sh", 1)
	f.Add(") S 1 (", 2)
	f.Fuzz(func(t *testing.T, name string, parent int) {
		// The parser finds the parent's id whatever the process's name is.
		_, got, state, ok := parseStat(fmt.Appendf(nil, "5 (%s) S %d 0 0", name, parent))
		if !ok || got != parent || state != 'S' {
			t.Errorf("%q: parent %d, want %d", name, got, parent)
		}
		parseStat([]byte(name))
	})
}
