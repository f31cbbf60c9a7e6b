package sandbox

import (
	"os"
	"runtime"
	"strconv"
	"strings"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// ABI returns the kernel's Landlock ABI version; 0 means no Landlock.
func ABI() int {
	abi, err := ll.LandlockGetABIVersion()
	if err != nil {
		return 0
	}
	return abi
}

// Assume returns what this host can probably enforce. Only an attempt shows whether it
// can create namespaces.
func Assume() Kernel {
	k := Kernel{Landlock: ABI(), Namespaces: true, Privileged: privileged(), UID: os.Geteuid(), GID: os.Getegid()}
	if _, _, errno := unix.Syscall(unix.SYS_MOUNT_SETATTR, ^uintptr(0), 0, 0); errno == unix.ENOSYS {
		k.OldMounts, k.Mounted = true, mounted()
	}
	return k
}

// privileged reports whether this process may create namespaces without a user
// namespace.
func privileged() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&header, &data[0]) != nil {
		return false
	}
	const want = 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_NET_ADMIN
	return data[0].Effective&want == want
}

// Probe tests what this host can enforce.
func Probe() Kernel {
	k := Assume()
	p := &program{}
	l := Layout{User: k.owner(), Mount: true, Network: true, IPC: true, Mounts: []Mount{{Path: "/dev", Mode: Fixed, Kind: Dir}}}
	if l.User {
		p.writeFile("/proc/self/setgroups", "deny")
	}
	p.loopback(false)
	p.add("make mounts private", unix.SYS_MOUNT, "", "/", 0, unix.MS_REC|unix.MS_PRIVATE, 0)
	if k.OldMounts {
		l.mountOld(p, k.Mounted, false)
	} else {
		l.mount(p, false)
	}
	p.add("end", unix.SYS_EXIT_GROUP, 0)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pid, err := p.start(l.flags())
	if err != nil {
		k.Namespaces, k.Why = false, err.Error()
		return k
	}
	reap(pid)
	return k
}

// Describe describes what a host can enforce in one line.
func Describe(k Kernel) string {
	namespaces := "namespaces by a user namespace"
	switch {
	case !k.Namespaces:
		namespaces = "no namespaces (" + k.Why + ")"
	case !k.owner():
		namespaces = "namespaces by privilege"
	}
	if k.Namespaces && k.OldMounts {
		namespaces += ", mounts by mount(2)"
	}
	landlock := "no Landlock"
	if k.Landlock > 0 {
		landlock = "Landlock ABI " + strconv.Itoa(k.Landlock)
	}
	if k.Landlock < scopeABI {
		namespaces += "; signals to other processes of the same user are not blocked (needs Linux 6.12)"
	}
	return landlock + ", " + namespaces
}

// flags returns the flags for clone.
func (l Layout) flags() (flags uintptr) {
	for _, n := range []struct {
		on   bool
		flag uintptr
	}{{l.User, unix.CLONE_NEWUSER}, {l.Mount, unix.CLONE_NEWNS}, {l.Network, unix.CLONE_NEWNET}, {l.IPC, unix.CLONE_NEWIPC}, {l.Proxy, unix.CLONE_FILES}} {
		if n.on {
			flags |= n.flag
		}
	}
	return flags
}

// Hints says what may prevent creating namespaces on this host, and how to fix
// it.
func Hints() []string {
	var hints []string
	is := func(file, value string) bool {
		text, err := os.ReadFile(file)
		return err == nil && strings.TrimSpace(string(text)) == value
	}
	if is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") {
		hints = append(hints, "AppArmor prevents users from creating namespaces: install a profile for this program that has \"userns,\", or set sysctl kernel.apparmor_restrict_unprivileged_userns=0")
	}
	if is("/proc/sys/user/max_user_namespaces", "0") {
		hints = append(hints, "user namespaces are disabled: set sysctl user.max_user_namespaces=10000")
	}
	if is("/proc/sys/kernel/unprivileged_userns_clone", "0") {
		hints = append(hints, "only root may create user namespaces: set sysctl kernel.unprivileged_userns_clone=1")
	}
	if status, err := os.ReadFile("/proc/self/status"); err == nil && strings.Contains(string(status), "\nSeccomp:\t2\n") {
		hints = append(hints, "this process has a seccomp filter, as in a Docker container: the filter must allow clone, mount, open_tree, move_mount, mount_setattr, fsopen, fsconfig and fsmount (--security-opt seccomp=…)")
	}
	return hints
}
