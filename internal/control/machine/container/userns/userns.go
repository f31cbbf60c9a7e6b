// Package userns creates the user namespaces of machines.
//
// Each machine has its own range of the host's user ids. Files on the disk have
// the owners that the machine sees, because the layers are mounted with those
// owners mapped to the range. So the machine needs the range only while it
// runs, and any machine can start from a disk that another one saved.
package userns

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"aloft/internal/control/machine/container/userns/namespace"
)

// The ranges of user ids.
const (
	FirstID = 0x60000000 // the first id of the first range: above the ids of people, and their subordinate ids
	IDs     = 1 << 16    // how many ids a range has
	Ranges  = 4096       // how many ranges there are
	lastID  = FirstID + Ranges*IDs - 1
)

// The main goroutine keeps the main thread. A thread that has entered
// namespaces ends with its goroutine, but the main thread cannot end, so
// /proc/self would show those namespaces.
func init() { runtime.LockOSThread() }

// A Space holds the namespaces of a machine while the machine starts. The zero
// Space means no user namespace.
type Space struct {
	First   int      // the host's id for root in the machine
	User    *os.File // the machine's user namespace
	Network *os.File // a network namespace owned by User; nil without a network
	Layers  *os.File // a user namespace that defines the owner mapping for mounting layers
}

// Open creates the namespaces of a machine whose range begins with first and that may
// have the given number of network namespaces. program is any executable file; none of
// its code runs.
func Open(program string, first, networks int, network bool) (*Space, error) {
	u := &Space{First: first}
	layers := make(chan error)
	go func() {
		n, err := namespace.Make(program, false, idsOnDisk(first))
		u.Layers = n.User
		layers <- err
	}()
	err := asOwner(first, func() error {
		n, err := namespace.MakeLimited(namespace.Limited{
			Program: program, Network: network, ID: idsOfMachine(first)[0], Max: networks,
		})
		u.User, u.Network = n.User, n.Network
		return err
	})
	if err := errors.Join(err, <-layers); err != nil {
		return nil, errors.Join(fmt.Errorf("user namespace: %w", err), u.Close())
	}
	return u, nil
}

// Try checks whether this host lets machines have user namespaces. If so, it
// returns a user namespace that maps the owners in layers to the first range,
// for a test mount.
func Try(program string) (layers *os.File, err error) {
	err = asOwner(FirstID, func() error {
		n, err := namespace.Make(program, false, idsOnDisk(FirstID))
		layers = n.User
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("user namespace: %w", err)
	}
	if err := canMountProc(); err != nil {
		return nil, errors.Join(err, layers.Close())
	}
	return layers, nil
}

// Close closes the descriptors.
func (u *Space) Close() error {
	var errs []error
	for _, f := range []*os.File{u.User, u.Network, u.Layers} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// idsOfMachine maps the user ids in a machine to a range of the host's.
func idsOfMachine(first int) []syscall.SysProcIDMap {
	return []syscall.SysProcIDMap{{ContainerID: 0, HostID: first, Size: IDs}}
}

// idsOnDisk maps the owners of files on the disk to users of the host, for the
// machine whose range begins with first.
func idsOnDisk(first int) []syscall.SysProcIDMap {
	return append(idsOfMachine(first),
		// An overlay creates some files as its mounter, the host's root, and
		// then changes their owner. So the mapping must also contain the host's
		// root.
		syscall.SysProcIDMap{ContainerID: IDs, HostID: 0, Size: 1},
		// Map the owners beyond the range to nobody. Images, and machines
		// without a user namespace, can have files of such owners, and the
		// kernel does not remove files whose owner has no mapping. No two ids
		// may map to the same id of a machine's range.
		syscall.SysProcIDMap{ContainerID: IDs + 1, HostID: IDs + 1, Size: FirstID - IDs - 1},
		syscall.SysProcIDMap{ContainerID: lastID + 1, HostID: lastID + 1, Size: 1<<32 - 2 - lastID},
	)
}

// changingUser is locked while a thread runs as another user, because the
// dumpable flag belongs to the whole process.
var changingUser sync.Mutex

// asOwner calls do on a thread whose user is uid, with root's capabilities and
// access to files. The kernel counts what a user namespace uses (inotify
// instances, pending signals, locked memory) towards the quotas of the user who
// created it, too. If root created all namespaces, one machine could use up the
// quotas of the other machines and of the host.
func asOwner(uid int, do func() error) error {
	changingUser.Lock()
	defer changingUser.Unlock()
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
		if err != nil {
			done <- err
			return
		}
		err = changeUser(uid)
		if err == nil {
			err = do()
		}
		back := errors.Join(changeUser(0), unix.Prctl(unix.PR_SET_DUMPABLE, uintptr(dumpable), 0, 0, 0))
		if back == nil {
			runtime.UnlockOSThread() // otherwise the thread ends with this goroutine
		}
		done <- errors.Join(err, back)
	}()
	return <-done
}

// changeUser changes the user of the calling thread. The thread keeps root's
// capabilities and access to files.
func changeUser(uid int) error {
	bits, err := unix.PrctlRetInt(unix.PR_GET_SECUREBITS, 0, 0, 0, 0)
	if err != nil {
		return err
	}
	const noSetuidFixup = 1 << 2 // SECBIT_NO_SETUID_FIXUP: a change of the user changes no capabilities
	if err := unix.Prctl(unix.PR_SET_SECUREBITS, uintptr(bits|noSetuidFixup), 0, 0, 0); err != nil {
		return fmt.Errorf("set secure bits: %w", err)
	}
	// unix.Setresuid would change all threads.
	_, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), 0)
	_, err = unix.SetfsuidRetUid(0)
	err = errors.Join(err, unix.Prctl(unix.PR_SET_SECUREBITS, uintptr(bits), 0, 0, 0))
	if errno != 0 {
		err = errors.Join(fmt.Errorf("change the user to %d: %w", uid, errno), err)
	}
	return err
}

// canMountProc reports whether a user namespace may mount /proc and /sys. The
// kernel refuses if the host's own are partly hidden from this process.
func canMountProc() error {
	ids := idsOfMachine(FirstID)
	cmd := exec.Command("sh", "-c", "mount -t proc proc /proc && mount -t sysfs sysfs /sys") //nolint:noctx // it does nothing else
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET,
		UidMappings: ids, GidMappings: ids, GidMappingsEnableSetgroups: true, Credential: &syscall.Credential{},
	}
	if words, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mount /proc and /sys in a user namespace: %w: %s", err, strings.TrimSpace(string(words[:min(len(words), 4<<10)])))
	}
	return nil
}
