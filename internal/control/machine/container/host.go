package container

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"aloft/internal/control/cgroup"
	"aloft/internal/control/machine/container/seccomp"
)

// hostFacts reads the properties of the host that the bundle depends on.
// Unreadable ones get the usual default.
func hostFacts() facts {
	f := facts{arch: runtime.GOARCH, raiseLimits: canRaiseLimits()}
	var u unix.Utsname
	if err := unix.Uname(&u); err == nil {
		f.kernel, _ = seccomp.ParseKernel(unix.ByteSliceToString(u.Release[:]))
	}
	if data, err := os.ReadFile("/proc/self/oom_score_adj"); err == nil {
		f.oomScoreAdj, _ = strconv.Atoi(strings.TrimSpace(string(data)))
	}
	all, _ := cgroup.Mounted()
	for _, h := range all {
		switch {
		case h.V2 && h.Has("memory"):
			f.swapLimit = true
		case h.Has("memory"):
			_, err := os.Stat(filepath.Join(h.Dir, "memory.memsw.limit_in_bytes"))
			f.swapLimit = err == nil
		}
	}
	return f
}

// DefaultMemory returns the default memory limit of a machine in bytes: half of
// the host's memory, so that no single machine can exhaust it. It returns 0 (no
// limit) if the kernel cannot limit memory.
func DefaultMemory() int64 {
	all, _ := cgroup.Mounted()
	kept := false
	for _, h := range all {
		kept = kept || h.Has("memory")
	}
	var info unix.Sysinfo_t
	if !kept || unix.Sysinfo(&info) != nil {
		return 0
	}
	return max(int64(info.Totalram)*int64(info.Unit)/2, minMemory)
}

// machineID returns the content of a new /etc/machine-id.
func machineID() (string, error) {
	var b [16]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", err
	}
	return hex.EncodeToString(b[:]), nil
}
