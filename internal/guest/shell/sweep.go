package shell

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	sessionPrefix = "aloft-shell-"
	memoryDir     = "/dev/shm" // files in memory are ten times as fast as on disk
	outSuffix     = ".out"     // suffix of the pipe of a running call, after its mark
	errSuffix     = ".err"
)

// makeDir creates a session's private folder, in memory if possible. Its name
// identifies the owning process.
func makeDir(outputDir string) (string, error) {
	pid := os.Getpid()
	pattern := fmt.Sprintf("%s%d-%d-%d-", sessionPrefix, pid, startOf(pid), namespace())
	if dir, err := os.MkdirTemp(memoryDir, pattern); err == nil {
		return dir, nil
	}
	dir, err := os.MkdirTemp(outputDir, pattern)
	if err != nil {
		return "", fmt.Errorf("shell: %w", err)
	}
	return dir, nil
}

// sweep kills the foreground commands of sessions whose process has died, and
// removes their folders. Background commands keep running.
func sweep(outputDir string) {
	for _, base := range []string{memoryDir, outputDir} {
		dirs, _ := filepath.Glob(filepath.Join(base, sessionPrefix+"*")) // the pattern is valid
		for _, dir := range dirs {
			if ownerLives(filepath.Base(dir), base == memoryDir) {
				continue
			}
			pipes, _ := filepath.Glob(filepath.Join(dir, "*"+outSuffix))
			for _, pipe := range pipes {
				killCall(-1, strings.TrimSuffix(filepath.Base(pipe), outSuffix), before{})
			}
			_ = os.RemoveAll(dir) // fails for other users' folders, which stay
		}
	}
}

// ownerLives reports whether the process that created a session's folder is
// running. It also reports true if the name cannot be parsed or, in a shared
// folder, if the process is in another PID namespace.
func ownerLives(name string, shared bool) bool {
	var pid int
	var start, in uint64
	if _, err := fmt.Sscanf(name, sessionPrefix+"%d-%d-%d-", &pid, &start, &in); err != nil {
		return true
	}
	if in != namespace() {
		return shared
	}
	return startOf(pid) == start
}

// namespace returns the number of this process's PID namespace; 0 if unknown.
func namespace() (n uint64) {
	name, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return 0
	}
	_, _ = fmt.Sscanf(name, "pid:[%d]", &n) // on error, n stays 0
	return n
}

// startOf returns a process's start time in clock ticks; 0 if there is no such
// process.
func startOf(pid int) uint64 {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	p, _, _ := parseStat(string(stat))
	return p.start
}
