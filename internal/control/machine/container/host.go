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

// hostFacts reads what the bundle depends on. What cannot be read is taken to
// be the host's usual.
func hostFacts() facts {
	f := facts{arch: runtime.GOARCH}
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

// DefaultMemory is the limit, in bytes, of a machine's memory where nobody has
// given one: half of the host's, so that no machine alone can use the host up;
// 0, for none, where the kernel keeps no such limits.
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

// has says whether the hierarchy bounds this resource.
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

// unifiedCgroups says whether the host has version 2 of cgroups only.
func unifiedCgroups() bool {
	all, err := mountedHierarchies()
	return err == nil && len(all) == 1 && all[0].v2
}

// machineID makes a fresh /etc/machine-id.
func machineID() (string, error) {
	var b [16]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", err
	}
	return hex.EncodeToString(b[:]), nil
}
