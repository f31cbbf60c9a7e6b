package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// execDaemon measures bin/exec-daemon alone: its size, the time until it
// listens, and its memory usage then.
func execDaemon() (rows []row, err error) {
	const program = "bin/exec-daemon"
	fmt.Fprintln(os.Stderr, "measuring", program)
	dir, err := os.MkdirTemp("", "aloft-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	info, err := os.Stat(program)
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	if err := exec.Command(program, "serve", "--help").Run(); err != nil {
		if _, ended := errors.AsType[*exec.ExitError](err); !ended {
			return nil, err
		}
	}
	bare := time.Since(begun)
	cmd := exec.Command(program, "serve", "--port", "0", "--pty-websocket-port", "0", "--workspace", dir, "--state-dir", filepath.Join(dir, "state"),
		"--output-dir", filepath.Join(dir, "output"), "--index-dir", filepath.Join(dir, "index"), "--artifacts-dir", filepath.Join(dir, "artifacts"))
	cmd.Env = append(os.Environ(), "EXEC_DAEMON_AUTH_TOKEN="+strings.Repeat("0123456789abcdef", 4))
	said, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	begun = time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	defer func() { _, _ = cmd.Process.Signal(syscall.SIGTERM), cmd.Wait() }() // exiting because of the signal is expected
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		var line struct{ Msg string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "listening" {
			took := float64(time.Since(begun))
			return []row{
				{program + ", start to listening", ms(took), ms(float64(bare)), times(took, float64(bare)) + " exec-daemon --help", ""},
				{program + ", size", mib(info.Size()), "", "", ""},
				{program + ", idle, resident", mib(memory(cmd.Process.Pid)), "", "", ""},
			}, nil
		}
	}
	return nil, fmt.Errorf("%s does not listen", program)
}
