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
	memoryDir     = "/dev/shm" // files in memory cost a tenth of what they do on a disk
	outSuffix     = ".out"     // of the pipe of a call that runs, before which stands its mark
	errSuffix     = ".err"
)

// makeDir makes the private folder of a session, in memory if that can be. Its
// name tells whose it is.
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

// sweep ends what processes that died left running in the foreground, and
// removes their sessions' folders. Background commands live on.
func sweep(outputDir string) {
	for _, base := range []string{memoryDir, outputDir} {
		dirs, _ := filepath.Glob(filepath.Join(base, sessionPrefix+"*")) // the pattern is sound
		for _, dir := range dirs {
			if ownerLives(filepath.Base(dir), base == memoryDir) {
				continue
			}
			pipes, _ := filepath.Glob(filepath.Join(dir, "*"+outSuffix))
			for _, pipe := range pipes {
				killCall(-1, strings.TrimSuffix(filepath.Base(pipe), outSuffix), before{})
			}
			_ = os.RemoveAll(dir) // another user's stays
		}
	}
}

// ownerLives reports whether the process that made a session's folder runs. A
// name that is not understood is taken to have an owner, and so is one of another
// PID namespace in a folder that several may share.
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

// namespace is the number of this process's PID namespace; 0 if it is not known.
func namespace() (n uint64) {
	name, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return 0
	}
	_, _ = fmt.Sscanf(name, "pid:[%d]", &n) // it stays 0
	return n
}

// startOf is when a process started, in ticks; 0 if there is none.
func startOf(pid int) uint64 {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	p, _, _ := parseStat(string(stat))
	return p.start
}
