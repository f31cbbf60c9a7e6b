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
)

// hostFacts reads the properties of the host that the bundle depends on.
// Unreadable ones get the usual default.
func hostFacts() facts {
	f := facts{arch: runtime.GOARCH, raiseLimits: canRaiseLimits()}
	var u unix.Utsname
	if err := unix.Uname(&u); err == nil {
		f.kernel, _ = parseKernel(unix.ByteSliceToString(u.Release[:]))
	}
	if data, err := os.ReadFile("/proc/self/oom_score_adj"); err == nil {
		f.oomScoreAdj, _ = strconv.Atoi(strings.TrimSpace(string(data)))
	}
	all, _ := mountedHierarchies()
	for _, h := range all {
		switch {
		case h.v2 && h.has("memory"):
			f.swapLimit = true
		case h.has("memory"):
			_, err := os.Stat(filepath.Join(h.dir, "memory.memsw.limit_in_bytes"))
			f.swapLimit = err == nil
		}
	}
	return f
}

// DefaultMemory returns the default memory limit of a machine in bytes: half of
// the host's memory, so that no single machine can exhaust it. It returns 0 (no
// limit) if the kernel cannot limit memory.
func DefaultMemory() int64 {
	all, _ := mountedHierarchies()
	kept := false
	for _, h := range all {
		kept = kept || h.has("memory")
	}
	var info unix.Sysinfo_t
	if !kept || unix.Sysinfo(&info) != nil {
		return 0
	}
	return max(int64(info.Totalram)*int64(info.Unit)/2, minMemory)
}

// has reports whether the hierarchy has the given controller.
func (h hierarchy) has(controller string) bool {
	names := h.controllers
	if h.v2 {
		data, err := os.ReadFile(filepath.Join(h.dir, "cgroup.controllers"))
		if err != nil {
			return false
		}
		names = strings.Fields(string(data))
	}
	for _, n := range names {
		if n == controller {
			return true
		}
	}
	return false
}

// unifiedCgroups reports whether the host has cgroup v2 only.
func unifiedCgroups() bool {
	all, err := mountedHierarchies()
	return err == nil && len(all) == 1 && all[0].v2
}

// machineID returns the content of a new /etc/machine-id.
func machineID() (string, error) {
	var b [16]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", err
	}
	return hex.EncodeToString(b[:]), nil
}
