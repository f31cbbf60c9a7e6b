package unprivileged

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Process is the server's process.
type Process struct {
	Cmd  *exec.Cmd // program, arguments, environment, files and streams
	User User
	// Show lists files and folders that the process must reach, even if they
	// are below a folder that the user cannot enter, such as /root.
	Show []string
}

// Run runs the process until it ends. started is called once it runs. The kernel kills
// the process if this one ends first. The error is that of [exec.Cmd.Wait].
func (p Process) Run(started func()) error {
	done := make(chan error)
	go func() {
		// Never unlock the thread, because its mount namespace differs from
		// that of the other threads: it must end with this goroutine. It must
		// live as long as the process, because the kernel kills the process
		// when the thread ends.
		runtime.LockOSThread()
		done <- p.run(started)
	}()
	return <-done
}

func (p Process) run(started func()) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	if err := p.show(); err != nil {
		return err
	}
	groups := make([]uint32, len(p.User.Groups))
	for i, g := range p.User.Groups {
		groups[i] = uint32(g)
	}
	p.Cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: uint32(p.User.ID), Gid: uint32(p.User.Group), Groups: groups},
		Pdeathsig:  syscall.SIGKILL,
	}
	if err := p.Cmd.Start(); err != nil {
		return err
	}
	started()
	return p.Cmd.Wait()
}

// show gives the calling thread a mount namespace in which the user reaches the
// paths in Show. It covers a folder that the user cannot enter by an empty
// folder with only those paths.
func (p Process) show() error {
	type shown struct {
		path, below string // below is the folder to cover
		mount       int
		folder      bool
	}
	var all []shown
	defer func() {
		for _, s := range all {
			_ = unix.Close(s.mount) // closes only a descriptor
		}
	}()
	for _, path := range p.Show {
		below, err := p.User.blocked(path)
		if err != nil {
			return err
		}
		if below == "" {
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		if err != nil {
			return &os.PathError{Op: "open_tree", Path: path, Err: err}
		}
		all = append(all, shown{path, below, fd, info.IsDir()})
	}
	if len(all) == 0 {
		return nil
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("new mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	covered := map[string]bool{}
	for _, s := range all {
		if !covered[s.below] {
			covered[s.below] = true
			if err := unix.Mount("tmpfs", s.below, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "size=256k,mode=0755"); err != nil {
				return &os.PathError{Op: "mount", Path: s.below, Err: err}
			}
		}
		if err := makePoint(s.path, s.folder); err != nil {
			return err
		}
		if err := unix.MoveMount(s.mount, "", unix.AT_FDCWD, s.path, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return &os.PathError{Op: "move_mount", Path: s.path, Err: err}
		}
	}
	for below := range covered {
		if err := unix.MountSetattr(unix.AT_FDCWD, below, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return &os.PathError{Op: "mount_setattr", Path: below, Err: err}
		}
	}
	return nil
}

// makePoint makes a mount point.
func makePoint(path string, folder bool) error {
	if folder {
		return os.MkdirAll(path, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	return errors.Join(err, f.Close())
}

// blocked returns the first folder on the way to path that the user cannot enter, or
// "". path must be absolute.
func (u User) blocked(path string) (string, error) {
	at := "/"
	for part := range strings.SplitSeq(strings.Trim(filepath.Dir(path), "/"), "/") {
		at = filepath.Join(at, part)
		if can, err := u.reaches(at); err != nil || !can {
			return at, err
		}
	}
	return "", nil
}
