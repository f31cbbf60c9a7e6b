package process

import (
	"errors"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestParseStat(t *testing.T) {
	rest := " S " + strings.Repeat("0 ", 18) + "4242 0 0"
	for _, name := range []string{"sh", "a b", ") S 1 2 3", "(((", "\n)"} {
		start, state, err := parseStat([]byte("17 (" + name + ")" + rest))
		if err != nil || start != 4242 || state != 'S' {
			t.Errorf("%q: %d %c %v", name, start, state, err)
		}
	}
	for _, bad := range []string{"", "17", "17 (sh", "17 (sh) S 1 2"} {
		if _, _, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q is no error", bad)
		}
	}
}

// TestRecord checks that a recorded process is found until it has ended.
func TestRecord(t *testing.T) {
	file := filepath.Join(t.TempDir(), "process.json")
	if _, err := Open(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
	arg := "bears-" + filepath.Base(t.TempDir()) + strings.ReplaceAll(t.TempDir(), "/", "-")
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "read line", arg)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := Record(file, cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if pid, err := PID(file); err != nil || pid != cmd.Process.Pid {
		t.Errorf("process %d, %v; want %d", pid, err, cmd.Process.Pid)
	}
	fd, err := Open(file)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- Wait(t.Context(), fd) }()
	if err := KillBearing(t.Context(), arg); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := Open(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a zombie: %v", err)
	}
	_ = cmd.Wait() // killed
	if status, ok := cmd.ProcessState.Sys().(unix.WaitStatus); ok && status.Signal() != unix.SIGKILL {
		t.Errorf("it ended with %v", cmd.ProcessState)
	}
	if _, err := Open(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after its end: %v", err)
	}
}
