package container

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"aloft/internal/control/layer"
)

// The main goroutine keeps the main thread. A thread that has entered namespaces ends
// with its goroutine, but the main thread cannot end, and /proc/self would show them.
func init() { runtime.LockOSThread() }

// Each machine that runs in a user namespace has its own range of the host's user
// ids. Its files on the disk keep the owners that the machine sees: the layers are
// mounted with these ids mapped to the range. So the range belongs to the machine
// only while it runs, and any machine can start from what another saved.
const (
	firstID   = 0x60000000 // above the ids of people, and their subordinate ids
	idsOfEach = 1 << 16
	ranges    = 4096
	lastID    = firstID + ranges*idsOfEach - 1
)

// A userSpace holds the namespaces of a machine while the machine starts.
type userSpace struct {
	first   int      // the machine's root, on the host
	user    *os.File // the machine's namespace
	network *os.File // a network namespace of it; nil without a network
	layers  *os.File // a user namespace whose mapping the layers are mounted with
}

func (u *userSpace) Close() error {
	var errs []error
	for _, f := range []*os.File{u.user, u.network, u.layers} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// namespacePath is where a namespace can be entered, by others too, until it is closed.
func namespacePath(f *os.File) string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd()) }

// openUserSpace takes a range for the machine and creates its namespaces. It returns
// an empty userSpace if the machine's image lies on a file system without idmapped
// mounts: the machine then runs without a user namespace.
func (m *Machine) openUserSpace(rec record, network bool) (_ *userSpace, err error) {
	n, err := m.takeIDs()
	if err != nil {
		return nil, err
	}
	u := &userSpace{first: firstID + n*idsOfEach}
	flags := uintptr(unix.CLONE_NEWUSER)
	if network {
		flags |= unix.CLONE_NEWNET
	}
	layers := make(chan error)
	go func() {
		spaces, err := makeNamespaces(m.r.conf.RuntimePath, unix.CLONE_NEWUSER, idsOnDisk(u.first))
		u.layers = spaces[0]
		layers <- err
	}()
	err = asOwner(u.first, func() (err error) {
		spaces, err := makeNamespaces(m.r.conf.RuntimePath, flags, idsOfMachine(u.first))
		u.user, u.network = spaces[0], spaces[1]
		return err
	})
	if err := errors.Join(err, <-layers); err != nil {
		return nil, errors.Join(fmt.Errorf("user namespace: %w", err), u.Close())
	}
	if err := rec.canMap(u.layers); err != nil {
		m.r.log.Warn("a machine runs without a user namespace: root in it is root on the host", "machine", m.id, "reason", err)
		return &userSpace{}, errors.Join(u.Close(), m.giveIDsBack())
	}
	return u, nil
}

// idsOfMachine maps the user ids in a machine to a range of the host's.
func idsOfMachine(first int) []syscall.SysProcIDMap {
	return []syscall.SysProcIDMap{{ContainerID: 0, HostID: first, Size: idsOfEach}}
}

// idsOnDisk maps the owners of files on the disk to users of the host, for the
// machine that has the range from first on.
func idsOnDisk(first int) []syscall.SysProcIDMap {
	return append(idsOfMachine(first),
		// An overlay creates some files as its mounter, the host's root, and then
		// changes their owner. So the host's root needs an id on the disk too.
		syscall.SysProcIDMap{ContainerID: idsOfEach, HostID: 0, Size: 1},
		// Files with owners beyond the range, from an image or from a machine without
		// a user namespace: in the machine they belong to nobody, and can be removed.
		// The kernel removes no file whose owner has no mapping. No id may map into
		// the machines' ranges twice.
		syscall.SysProcIDMap{ContainerID: idsOfEach + 1, HostID: idsOfEach + 1, Size: firstID - idsOfEach - 1},
		syscall.SysProcIDMap{ContainerID: lastID + 1, HostID: lastID + 1, Size: 1<<32 - 2 - lastID},
	)
}

// canMap returns nil if the owners of all that the machine is made of can be mapped.
func (rec record) canMap(ids *os.File) error {
	for _, dir := range rec.lower() {
		if err := layer.CanMap(dir, ids); err != nil {
			return err
		}
	}
	for _, b := range rec.Image.Binds {
		if err := layer.CanMap(b.Source, ids); err != nil {
			return err
		}
	}
	for _, name := range rec.Image.Views {
		if err := layer.CanMap("/"+name, ids); err != nil {
			return err
		}
	}
	return nil
}

// makeNamespaces creates a user namespace with the mapping ids and, if flags have
// CLONE_NEWNET, a network namespace that belongs to it. A namespace needs a process
// before it can be opened: the program is started traced, so that it stops at its
// first instruction, and is then killed.
func makeNamespaces(program string, flags uintptr, ids []syscall.SysProcIDMap) (spaces [2]*os.File, err error) {
	runtime.LockOSThread() // a tracer is a thread
	defer runtime.UnlockOSThread()
	// The new process cannot enter folders that other users have closed, so the
	// program is opened here.
	file, err := os.Open(program)
	if err != nil {
		return spaces, err
	}
	defer func() { _ = file.Close() }()
	cmd := exec.Command(fmt.Sprintf("/proc/self/fd/%d", file.Fd())) //nolint:noctx // it ends below
	cmd.Env = []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: flags, UidMappings: ids, GidMappings: ids, GidMappingsEnableSetgroups: true,
		Ptrace: true, Pdeathsig: unix.SIGKILL,
	}
	if err := cmd.Start(); err != nil {
		return spaces, err
	}
	defer func() {
		_ = cmd.Process.Kill() // it is there until it is waited for
		_ = cmd.Wait()
	}()
	for i, name := range []string{"user", "net"} {
		if name == "net" && flags&unix.CLONE_NEWNET == 0 {
			continue
		}
		if spaces[i], err = os.Open(fmt.Sprintf("/proc/%d/ns/%s", cmd.Process.Pid, name)); err != nil {
			return spaces, err
		}
	}
	return spaces, nil
}

// changingUser is held while a thread has another user: the dumpable flag belongs
// to the whole process.
var changingUser sync.Mutex

// asOwner calls do on a thread whose user is uid, with root's capabilities and
// access to files. The kernel counts what a user namespace uses (inotify instances,
// pending signals, locked memory) towards the user who created it, too: if root
// created them all, one machine could use up what the others and the host have.
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
			runtime.UnlockOSThread() // else the thread ends with this goroutine
		}
		done <- errors.Join(err, back)
	}()
	return <-done
}

// changeUser changes the user of the calling thread, but not its capabilities and
// its access to files, which are root's.
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

// takeIDs takes a range that no other running machine has, and returns its number.
// The machine keeps it until it is cleared.
func (m *Machine) takeIDs() (int, error) {
	if err := m.giveIDsBack(); err != nil {
		return 0, err
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(m.cgroup))
	for i := range ranges {
		n := int((h.Sum32() + uint32(i)) % ranges)
		// The note comes before the claim, so that a claim is never lost if this
		// process is killed in between.
		if err := os.WriteFile(m.path("ids"), []byte(strconv.Itoa(n)), 0o600); err != nil {
			return 0, err
		}
		err := os.Symlink(m.id, m.r.claimOfIDs(n))
		if err == nil {
			return n, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return 0, err
		}
	}
	return 0, fmt.Errorf("all %d ranges of user ids are taken by running machines", ranges)
}

// giveIDsBack gives back the machine's range, if it has one. No process of the
// machine may be running.
func (m *Machine) giveIDsBack() error {
	data, err := os.ReadFile(m.path("ids"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if n, err := strconv.Atoi(strings.TrimSpace(string(data))); err == nil {
		claim := m.r.claimOfIDs(n)
		if who, err := os.Readlink(claim); err == nil && who == m.id {
			if err := os.Remove(claim); err != nil {
				return err
			}
		}
	}
	return os.Remove(m.path("ids"))
}

// claimOfIDs returns the path of the link that names the machine with range n.
func (r *Runtime) claimOfIDs(n int) string {
	return filepath.Join(r.conf.Dir, "ids", strconv.Itoa(n))
}

// runApart calls do in a new mount namespace. Nobody else on the host sees what do
// mounts, and the mounts end with the processes that it starts.
func (m *Machine) runApart(do func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread is in the new namespace for good: it ends with this goroutine
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			done <- fmt.Errorf("new mount namespace: %w", err)
			return
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			done <- fmt.Errorf("make mounts private: %w", err)
			return
		}
		done <- do()
	}()
	return <-done
}

// rootPoint is where a machine's root file system is mounted, in the mount namespace
// of runApart. It lies outside of the runtime's folders: root in the machine has to
// reach it, and may enter none of those.
func (r *Runtime) rootPoint() string { return filepath.Join(r.rootParent(), "aloft-machine-root") }

// rootParent returns a folder that every host has and everybody may enter.
func (r *Runtime) rootParent() string {
	if strings.HasPrefix(r.conf.Dir+"/", "/run/") || strings.HasPrefix(r.conf.RuntimePath, "/run/") {
		return "/mnt"
	}
	return "/run"
}

// makeRootPoint creates rootPoint. It must be called inside runApart.
func (r *Runtime) makeRootPoint() error {
	if err := unix.Mount("tmpfs", r.rootParent(), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=64k,mode=0755"); err != nil {
		return &os.PathError{Op: "mount", Path: r.rootParent(), Err: err}
	}
	return os.Mkdir(r.rootPoint(), 0o755)
}

// canMap reports whether machines can have user namespaces on this host: nil, or
// why not. It mounts an overlay in dir with its owners mapped and writes through it.
func canMap(program, dir string) (err error) {
	var ids *os.File
	if err := asOwner(firstID, func() error {
		spaces, err := makeNamespaces(program, unix.CLONE_NEWUSER, idsOnDisk(firstID))
		ids = spaces[0]
		return err
	}); err != nil {
		return fmt.Errorf("user namespace: %w", err)
	}
	defer func() { _ = ids.Close() }()
	if err := canMountProc(); err != nil {
		return err
	}
	return inOverlay(dir, func(root, lower, upper, work string) error {
		return layer.MountMapped(root, []string{lower}, upper, work, ids)
	}, func(root string) error {
		// Copied up as its owner, and removed.
		file := filepath.Join(root, "file")
		if err := os.Chmod(file, 0o640); err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Stat(file, &st); err != nil {
			return err
		}
		if st.Uid != firstID {
			return fmt.Errorf("a file of root is shown as one of %d", st.Uid)
		}
		return os.Remove(file)
	})
}

// canMountProc reports whether a user namespace may mount /proc and /sys: the kernel
// refuses it where the host's own are partly hidden from this process.
func canMountProc() error {
	ids := idsOfMachine(firstID)
	cmd := exec.Command("sh", "-c", "mount -t proc proc /proc && mount -t sysfs sysfs /sys") //nolint:noctx // it does nothing else
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET,
		UidMappings: ids, GidMappings: ids, GidMappingsEnableSetgroups: true, Credential: &syscall.Credential{},
	}
	if words, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mount /proc and /sys in a user namespace: %w: %s", err, strings.TrimSpace(string(words[:min(len(words), maxWords)])))
	}
	return nil
}
