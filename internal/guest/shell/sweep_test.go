package shell

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test binary act as a process that dies while it runs a
// command.
func TestMain(m *testing.M) {
	if dir := os.Getenv("SHELL_TEST_VICTIM"); dir != "" {
		victim(dir)
		return
	}
	os.Exit(m.Run())
}

func victim(dir string) {
	s, err := New(Config{Dir: dir, OutputDir: filepath.Join(dir, "out")})
	if err != nil {
		panic(err)
	}
	_, err = s.Run(context.Background(), Command{Timeout: time.Minute, Text: "echo $$; sleep 300 & echo $!; (trap '' HUP; setsid sleep 301) & echo ready; sleep 302"}, func(stdout, _ string) {
		_, _ = os.Stdout.WriteString(stdout)
	})
	panic(err)
}

func TestNextProcessEndsWhatTheLastLeft(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "SHELL_TEST_VICTIM="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pids []int
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "ready"; {
		pid, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	if len(pids) != 2 {
		t.Fatalf("process ids %v", pids)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // bash was killed
	eventually(t, "bash died with its parent", func() bool { return !alive(pids[0]) })
	s, err := New(Config{Dir: dir, OutputDir: filepath.Join(dir, "out")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	eventually(t, "what bash had started is gone", func() bool { return !alive(pids[1]) })
	mine, err := filepath.Glob(filepath.Join(memoryDir, sessionPrefix+strconv.Itoa(cmd.Process.Pid)+"-*"))
	if err != nil || len(mine) > 0 {
		t.Errorf("left behind: %s, %v", strings.Join(mine, " "), err)
	}
}
