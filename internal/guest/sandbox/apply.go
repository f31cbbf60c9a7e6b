package sandbox

import (
	"errors"
	"fmt"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// ABI is the version of Landlock that the kernel has; 0 is none.
func ABI() int {
	abi, err := ll.LandlockGetABIVersion()
	if err != nil {
		return 0
	}
	return abi
}

// Apply confines the calling thread, and so what it executes. The caller has
// locked the thread (runtime.LockOSThread) and executes from it: other threads
// of the process stay free. After an error the thread is in an unknown state
// between, and the process must end.
func Apply(r Rules) error {
	// Before privileges go: opening the paths may need them.
	ruleset, err := ruleset(r)
	if err != nil {
		return err
	}
	if err := dropPrivileges(); err != nil {
		return err
	}
	if ruleset >= 0 {
		err := ll.LandlockRestrictSelf(ruleset, 0)
		if err = errors.Join(err, unix.Close(ruleset)); err != nil {
			return fmt.Errorf("landlock: %w", err)
		}
	}
	if r.Sockets {
		return refuseSockets()
	}
	return nil
}

// ruleset makes Landlock's; -1 where there is nothing to restrict.
func ruleset(r Rules) (fd int, err error) {
	if r.Files|r.TCP|r.Scope == 0 {
		return -1, nil
	}
	fd, err = ll.LandlockCreateRuleset(&ll.RulesetAttr{
		HandledAccessFS: r.Files, HandledAccessNet: r.TCP, Scoped: r.Scope,
	}, 0)
	if err != nil {
		return -1, fmt.Errorf("landlock: %w", err)
	}
	for _, p := range r.Paths {
		if err := allow(fd, p); err != nil {
			return -1, errors.Join(fmt.Errorf("path %s: %w", p.Path, err), unix.Close(fd))
		}
	}
	return fd, nil
}

func allow(ruleset int, p PathRule) error {
	fd, err := unix.Open(p.Path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}
	access := p.Access
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= fileAccess
	}
	return ll.LandlockAddPathBeneathRule(ruleset, &ll.PathBeneathAttr{ParentFd: fd, AllowedAccess: access}, 0)
}

// dropPrivileges gives up every capability and the way to get any back.
func dropPrivileges() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("ambient capabilities: %w", err)
	}
	for c := uintptr(0); ; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM) {
			break // past the last; or there was none to begin with, and no_new_privs keeps it so
		}
		if err != nil {
			return fmt.Errorf("bounding capabilities: %w", err)
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	return nil
}
