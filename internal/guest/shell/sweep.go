package shell

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const sessionPrefix = "session-"

// running notes which call runs now, so that the next process can end what
// this one could not.
func (s *Session) running(mark string) error {
	if err := os.WriteFile(s.file("running"), []byte(mark), 0o600); err != nil {
		return fmt.Errorf("shell: %w", err)
	}
	return nil
}

// sweep ends what a process that died left running in the foreground, and
// removes its sessions' folders. Background commands live on.
func sweep(outputDir string) {
	dirs, _ := filepath.Glob(filepath.Join(outputDir, sessionPrefix+"*")) // the pattern is sound
	for _, dir := range dirs {
		var owner int
		if _, err := fmt.Sscanf(filepath.Base(dir), sessionPrefix+"%d-", &owner); err != nil {
			continue
		}
		if owner == os.Getpid() || exe(owner) == exe(os.Getpid()) {
			continue // its owner lives
		}
		if mark, err := os.ReadFile(filepath.Join(dir, "running")); err == nil && len(mark) > 0 {
			killCall(-1, string(mark), 0)
		}
		_ = os.RemoveAll(dir) // only space is lost
	}
}

// exe is the program that a process runs; empty if it cannot be known.
func exe(pid int) string {
	path, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return strings.TrimSuffix(path, " (deleted)")
}
