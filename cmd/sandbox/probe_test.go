package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// probe tries one operation of the table of escapes. It returns nil if the
// operation succeeds.
func probe(args []string) error {
	at := func(i int) string {
		if i < len(args) {
			return args[i]
		}
		return ""
	}
	number := func(i int) int {
		n, _ := strconv.Atoi(at(i)) // 0 is a number too
		return n
	}
	switch at(0) {
	case "truncate":
		return os.Truncate(at(1), 0)
	case "exchange":
		return unix.Renameat2(unix.AT_FDCWD, at(1), unix.AT_FDCWD, at(2), unix.RENAME_EXCHANGE)
	case "openat": // relative to an inherited folder
		fd, err := unix.Openat(number(1), at(2), unix.O_WRONLY|unix.O_TRUNC, 0)
		if err == nil {
			_, err = unix.Write(fd, []byte("pwned\n"))
		}
		return err
	case "fchdir":
		if err := unix.Fchdir(number(1)); err != nil {
			return err
		}
		return os.WriteFile(at(2), []byte("pwned\n"), 0o644)
	case "tmpfile": // create a file without a name, then link it
		fd, err := unix.Open(at(1), unix.O_TMPFILE|unix.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		return unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), unix.AT_FDCWD, at(2), unix.AT_SYMLINK_FOLLOW)
	case "setxattr":
		return unix.Setxattr(at(1), "user.pwned", []byte("x"), 0)
	case "socket":
		fd, err := unix.Socket(number(1), number(2), number(3))
		if refused(err) {
			return err
		}
		if err == nil {
			return unix.Close(fd)
		}
		return nil // any reply proves that the kernel was reached
	case "dial":
		c, err := net.DialTimeout(at(1), at(2), 3*time.Second)
		if err == nil {
			err = c.Close()
		}
		return err
	case "reach":
		return reach(at(1), at(2))
	case "loopback":
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		c, err := net.Dial("tcp", l.Addr().String())
		if err == nil {
			err = c.Close()
		}
		return err
	case "peek": // write into another process's memory
		var b [8]byte
		addr, _ := strconv.ParseUint(os.Getenv("SECRET_AT"), 10, 64)
		n, err := unix.ProcessVMReadv(number(1), []unix.Iovec{{Base: &b[0], Len: 8}}, []unix.RemoteIovec{{Base: uintptr(addr), Len: 8}}, 0)
		if err == nil && n != 8 {
			err = errors.New("short")
		}
		return err
	case "ptrace":
		return unix.PtraceSeize(number(1))
	case "getfd":
		pidfd, err := unix.PidfdOpen(number(1), 0)
		if err != nil {
			return err
		}
		_, err = unix.PidfdGetfd(pidfd, 0, 0)
		return err
	case "call": // a system call by its number, with harmless arguments
		var a [6]uintptr
		for i := range a {
			n, _ := strconv.ParseInt(at(2+i), 0, 64)
			a[i] = uintptr(n)
		}
		_, _, errno := unix.Syscall6(calls[at(1)], a[0], a[1], a[2], a[3], a[4], a[5])
		if errno == unix.EPERM || errno == unix.ENOSYS || errno == unix.EACCES {
			return errno
		}
		return nil
	case "unshare":
		// Use a child process, because this process may have several threads.
		cmd := exec.Command("true")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: map[string]uintptr{
			"user": unix.CLONE_NEWUSER, "net": unix.CLONE_NEWNET, "mount": unix.CLONE_NEWNS, "time": unix.CLONE_NEWTIME,
		}[at(1)]}
		if at(1) == "time" {
			cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWTIME}
		}
		return cmd.Run()
	case "tiocsti":
		m, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
		if err != nil {
			return err
		}
		var c byte = 'x'
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, m.Fd(), unix.TIOCSTI, uintptr(unsafe.Pointer(&c)))
		if errno == unix.EPERM {
			return errno
		}
		return nil
	case "race":
		return race(at(1), number(2))
	}
	return fmt.Errorf("no probe %q", at(0))
}

var calls = map[string]uintptr{
	"mount": unix.SYS_MOUNT, "umount2": unix.SYS_UMOUNT2, "pivot_root": unix.SYS_PIVOT_ROOT, "move_mount": unix.SYS_MOVE_MOUNT, "open_tree": unix.SYS_OPEN_TREE,
	"fsopen": unix.SYS_FSOPEN, "fsmount": unix.SYS_FSMOUNT, "fspick": unix.SYS_FSPICK, "fsconfig": unix.SYS_FSCONFIG, "mount_setattr": unix.SYS_MOUNT_SETATTR,
	"setns": unix.SYS_SETNS, "io_uring_setup": unix.SYS_IO_URING_SETUP, "io_uring_enter": unix.SYS_IO_URING_ENTER, "io_uring_register": unix.SYS_IO_URING_REGISTER,
	"bpf": unix.SYS_BPF, "perf_event_open": unix.SYS_PERF_EVENT_OPEN, "userfaultfd": unix.SYS_USERFAULTFD, "keyctl": unix.SYS_KEYCTL, "add_key": unix.SYS_ADD_KEY,
	"request_key": unix.SYS_REQUEST_KEY, "fanotify_init": unix.SYS_FANOTIFY_INIT, "kexec_load": unix.SYS_KEXEC_LOAD, "init_module": unix.SYS_INIT_MODULE,
	"finit_module": unix.SYS_FINIT_MODULE, "delete_module": unix.SYS_DELETE_MODULE, "swapoff": unix.SYS_SWAPOFF, "quotactl": unix.SYS_QUOTACTL,
	"syslog": unix.SYS_SYSLOG, "clone3": unix.SYS_CLONE3, "name_to_handle_at": unix.SYS_NAME_TO_HANDLE_AT, "open_by_handle_at": unix.SYS_OPEN_BY_HANDLE_AT,
	"kcmp": unix.SYS_KCMP, "chroot": unix.SYS_CHROOT, "sethostname": unix.SYS_SETHOSTNAME, "clock_settime": unix.SYS_CLOCK_SETTIME, "clone": unix.SYS_CLONE,
	"acct": unix.SYS_ACCT, "reboot": unix.SYS_REBOOT, "adjtimex": unix.SYS_ADJTIMEX, "kexec_file_load": unix.SYS_KEXEC_FILE_LOAD,
}

func refused(err error) bool { return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) }

// reach connects to a host and port as curl would: through the proxy if there
// is one, and otherwise directly.
func reach(how, to string) error {
	proxy := os.Getenv("HTTP_PROXY")
	if proxy == "" {
		host, port, err := net.SplitHostPort(to)
		if err != nil {
			return err
		}
		host = strings.TrimSuffix(host, ".")
		c, err := net.DialTimeout("tcp", net.JoinHostPort(host, port), 3*time.Second)
		if err == nil {
			err = c.Close()
		}
		return err
	}
	at, err := url.Parse(proxy)
	if err != nil {
		return err
	}
	c, err := net.DialTimeout("tcp", at.Host, 3*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	in := bufio.NewReader(c)
	switch how {
	case "connect":
		fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", to, to)
	case "get":
		fmt.Fprintf(c, "GET http://%s/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n", to)
	case "socks":
		host, port, err := net.SplitHostPort(to)
		if err != nil {
			return err
		}
		n, _ := strconv.Atoi(port)
		if _, err := c.Write([]byte{5, 1, 0}); err != nil {
			return err
		}
		if _, err := in.Discard(2); err != nil {
			return err
		}
		request := append([]byte{5, 1, 0, 3, byte(len(host))}, host...)
		if _, err := c.Write(append(request, byte(n>>8), byte(n))); err != nil {
			return err
		}
		reply := make([]byte, 2)
		if _, err := in.Read(reply); err != nil {
			return err
		}
		if reply[1] != 0 {
			return fmt.Errorf("socks: %d", reply[1])
		}
		return nil
	}
	line, err := in.ReadString('\n')
	if err != nil {
		return err
	}
	if !strings.Contains(line, " 200 ") {
		return errors.New(line)
	}
	return nil
}

// race changes the target of a name n times while it writes through that name.
// It returns an error if no write has changed a protected file.
func race(target string, n int) error {
	if err := os.Mkdir("r", 0o755); err != nil {
		return err
	}
	if err := os.WriteFile("r/config", nil, 0o644); err != nil {
		return err
	}
	stop := make(chan bool)
	go func() {
		defer close(stop)
		for range n {
			_ = os.Symlink(".git", "l")
			_ = os.Rename("l", "name")
			_ = os.Symlink("r", "l")
			_ = os.Rename("l", "name")
			_ = os.Rename(".git", "git2")
			_ = os.Rename("git2", ".git")
			_ = os.Link(target, "hard")
			_ = os.Remove("hard")
		}
	}()
	for {
		select {
		case <-stop:
			text, err := os.ReadFile(target)
			if err != nil {
				return err
			}
			if !strings.Contains(string(text), "pwned") {
				return errors.New("nothing was written")
			}
			return nil
		default:
			_ = os.WriteFile("name/config", []byte("pwned\n"), 0o644)
			if f, err := os.OpenFile("hard", os.O_WRONLY|os.O_APPEND, 0); err == nil {
				_, _ = f.WriteString("pwned\n")
				_ = f.Close()
			}
		}
	}
}
