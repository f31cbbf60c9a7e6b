package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	cgroupDir = "/sys/fs/cgroup"
	ownCgroup = "init" // cgroup of this process and its descendants, unless they move
)

// leaveRootCgroup moves this process out of the root of the machine's cgroups, if the
// machine may create cgroups. Docker enables controllers for child cgroups to limit
// containers, and cgroup v2 allows that only for a cgroup without processes.
func leaveRootCgroup(dir string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil || st.Type != unix.CGROUP2_SUPER_MAGIC {
		return nil //nolint:nilerr // there are no cgroups, or they are of version 1
	}
	at, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return err
	}
	if !slices.Contains(strings.Split(string(at), "\n"), "0::/") {
		return nil // dir also shows cgroups above the machine's
	}
	own := filepath.Join(dir, ownCgroup)
	err = os.Mkdir(own, 0o755)
	if errors.Is(err, unix.EROFS) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := os.WriteFile(filepath.Join(own, "cgroup.procs"), []byte("0"), 0); err != nil { // 0 means this process
		return err
	}
	controllers, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for _, c := range strings.Fields(string(controllers)) {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+c), 0); err != nil {
			return fmt.Errorf("pass on the controller %s: %w", c, err)
		}
	}
	return nil
}
