package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/need"
)

const cgroupChild = "ALOFT_TEST_LEAVE_CGROUP"

// leaveChild is the main function of TestLeaveRootCgroup's child process.
func leaveChild(dir string) int {
	err := leaveRootCgroup(dir)
	where, failed := os.ReadFile("/proc/self/cgroup")
	if err := errors.Join(err, failed); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Print(string(where))
	return 0
}

// TestLeaveRootCgroup runs leaveRootCgroup in a process in a new cgroup v2.
// Afterwards the cgroup must contain no processes and delegate all of its
// controllers.
func TestLeaveRootCgroup(t *testing.T) {
	need.Root(t)
	root := ""
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		before, after, _ := strings.Cut(line, " - ")
		if strings.HasPrefix(after, "cgroup2 ") {
			root = strings.Fields(before)[4]
		}
	}
	if root == "" {
		t.Fatal("cgroup v2 is not mounted")
	}
	dir := filepath.Join(root, fmt.Sprintf("aloft-test-%d", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = os.Remove(filepath.Join(dir, ownCgroup))
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	cmd := exec.Command("sh", "-c", `echo $$ > "$1/cgroup.procs" && exec unshare --cgroup "$2"`, "sh", dir, os.Args[0])
	cmd.Env = append(os.Environ(), cgroupChild+"="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "0::/"+ownCgroup+"\n") {
		t.Errorf("the process is in %s, %v", out, err)
	}
	has, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		t.Fatal(err)
	}
	passes, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	if err != nil || string(passes) != string(has) {
		t.Errorf("it passes on %q of %q, %v", passes, has, err)
	}
	if err := leaveRootCgroup(t.TempDir()); err != nil {
		t.Errorf("without cgroups: %v", err)
	}
}
