package main

import (
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"aloft/internal/guest/sandbox"
	"aloft/internal/need"
)

// answer is a kernel's result for a system call whose first argument contains
// these bits.
type answer struct {
	number, bits uint32
	errno        unix.Errno
}

// kernels simulates other kernels, as a sandbox sees them.
var kernels = map[string][]answer{
	// gVisor, and Linux before 5.12, have neither Landlock nor mount_setattr.
	"old": {{unix.SYS_MOUNT_SETATTR, 0, unix.ENOSYS}, {unix.SYS_LANDLOCK_CREATE_RULESET, 0, unix.ENOSYS}},
	// Ubuntu with kernel.apparmor_restrict_unprivileged_userns: creating a user namespace either
	// fails, or succeeds with a profile that forbids mounting.
	"apparmor":         {{unix.SYS_CLONE, unix.CLONE_NEWUSER, unix.EPERM}, {unix.SYS_UNSHARE, unix.CLONE_NEWUSER, unix.EPERM}},
	"apparmor profile": {{unix.SYS_MOUNT, 0, unix.EACCES}, {unix.SYS_OPEN_TREE, 0, unix.EACCES}, {unix.SYS_MOVE_MOUNT, 0, unix.EACCES}, {unix.SYS_FSMOUNT, 0, unix.EACCES}},
}

// as installs seccomp filters that make the kernel respond as the simulated
// one, for this process and its children.
func as(kernel string) error {
	if kernel == "" {
		return nil
	}
	runtime.LockOSThread()
	var code []unix.SockFilter
	for _, a := range kernels[kernel] {
		code = append(code,
			unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0},
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 4, K: a.number},
			unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 16},
			unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: a.bits},
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: a.bits},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(a.errno)},
		)
	}
	code = append(code, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	prog := &unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(prog)))
	if errno != 0 {
		return errno
	}
	return nil
}

// TestAppArmor simulates how AppArmor forbids user namespaces, with its sysctl
// and its errors. No command may run unless the caller accepts that, and the
// message must say how to fix it.
func TestAppArmor(t *testing.T) {
	requireAll(t)
	need.Root(t)
	unshare := need.Command(t, "unshare")
	s := newScene(t, 1000)
	at := newSite(t, s.base, 1000)
	script := "mount -t tmpfs none /proc/sys/kernel && echo 1 > /proc/sys/kernel/apparmor_restrict_unprivileged_userns && exec setpriv --reuid 1000 --regid 1000 --clear-groups \"$@\""
	for _, kernel := range []string{"apparmor", "apparmor profile"} {
		for _, tt := range []struct {
			args []string
			code int
			says []string
		}{
			{[]string{"--workspace", at.workspace, "--", "true"}, sandbox.ExitUnenforceable, []string{
				"protected paths in", "to fix this: AppArmor prevents users from creating namespaces", "kernel.apparmor_restrict_unprivileged_userns=0", "nothing was run",
			}},
			{[]string{"--best-effort", "--workspace", at.workspace, "--", "sh", "-c", "echo ran; echo $CURSOR_SANDBOX_LANDLOCK_STATUS; echo x > " + at.outside + "/file"}, 2, []string{
				"not enforced: protected paths", "ran\npartially_enforced\n", "ermission denied",
			}},
			{[]string{"probe"}, sandbox.ExitFailed, []string{"no namespaces (", "status: this host cannot enforce"}},
		} {
			args := append([]string{unshare, "-m", "sh", "-c", script, "sh", s.program}, tt.args...)
			cmd := s.command(t.Context(), 0, "sandbox", args...)
			cmd.Dir, cmd.Env = at.workspace, append(cmd.Env, "SANDBOX_TEST_ON="+kernel)
			out, _ := cmd.CombinedOutput() // the exit code is checked
			if code := cmd.ProcessState.ExitCode(); code != tt.code {
				t.Errorf("%s: %q: exit %d: %s; want %d", kernel, tt.args, code, out, tt.code)
			}
			for _, words := range tt.says {
				if !strings.Contains(string(out), words) {
					t.Errorf("%s: %q: %s; want it to say %q", kernel, tt.args, out, words)
				}
			}
		}
	}
}
