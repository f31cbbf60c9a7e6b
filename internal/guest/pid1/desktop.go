package pid1

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"aloft/internal/guest/desktop"
)

// desktopPatience is how long to wait for the VNC server to start, which takes
// 0.2 s on an idle machine. It is below the control plane's own timeout of 10
// s.
const desktopPatience = 9 * time.Second

// screen is the machine's display. This daemon listens on the display's socket
// until a client connects, then starts the X server and passes it the socket.
// The socket therefore also exists while the server restarts, and clients wait
// meanwhile.
type screen struct {
	d   *Daemon
	dir string // for the desktop's files

	x11, bus, system *os.File // sockets; the buses are nil if D-Bus is not installed

	mu sync.Mutex // held while programs are started
}

// displayEnviron returns the environment variables of programs that use the
// display.
func (d *Daemon) displayEnviron() []string {
	d.mu.Lock()
	s := d.screen
	d.mu.Unlock()
	if s == nil {
		return nil
	}
	return desktop.Environ(s.busSocket())
}

// serveDisplay listens on the display if the image has a VNC server. The first
// connection starts the desktop.
func (d *Daemon) serveDisplay() error {
	env := d.environ()
	if d.cfg.DesktopDir == "" || lookPath("Xtigervnc", env) == "" {
		return nil
	}
	s := &screen{d: d, dir: d.cfg.DesktopDir}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	if err := errors.Join(socketFolder(desktop.SocketDir), d.ownFolder(desktop.RuntimeDir(s.dir))); err != nil {
		return err
	}
	var err error
	if s.x11, err = listenFile(desktop.Socket(desktop.Display), 0o777, -1); err != nil {
		return err
	}
	go s.await(s.x11, s.wake)
	if lookPath("dbus-daemon", env) != "" {
		if s.bus, err = listenFile(s.busPath(), 0o600, int(d.user.Load().UID)); err != nil {
			return err
		}
		go s.await(s.bus, s.wakeBus)
	}
	// The bus needs its configuration, and root must own the folder of its socket.
	if lookPath("dbus-daemon", d.ownEnviron()) != "" && exists("/usr/share/dbus-1/system.conf") {
		if err := os.MkdirAll(filepath.Dir(desktop.SystemBusSocket), 0o755); err != nil {
			return err
		}
		if s.system, err = listenFile(desktop.SystemBusSocket, 0o666, -1); err != nil {
			return err
		}
		go s.await(s.system, s.wakeSystemBus)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.screen = s
	return nil
}

func (s *screen) busPath() string { return filepath.Join(s.dir, "bus") }

// busSocket is the path of D-Bus's socket, or "" if D-Bus is not installed.
func (s *screen) busSocket() string {
	if s.bus == nil {
		return ""
	}
	return s.busPath()
}

// wake starts the desktop programs that are not running. It returns only errors
// of the display itself, because a display without a window manager is still
// usable.
func (s *screen) wake() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	env := s.d.environ()
	spec := keptProgram(desktop.VNC(env))
	// A killed X server leaves its lock file behind, and the next could mistake
	// the process id in it for a running server. Only this daemon uses the
	// display, as it owns the socket, so the file can be removed.
	spec.stale = "/tmp/.X" + strconv.Itoa(desktop.Display) + "-lock"
	spec.socket = s.x11
	if err := s.keep(spec); err != nil {
		return err
	}
	if err := s.startBus(env); err != nil {
		s.d.cfg.Log.Error("the desktop has no D-Bus", "err", err)
		return nil
	}
	has := func(command string) bool {
		return lookPath(command, env) != "" || filepath.IsAbs(command) && exists(command)
	}
	for _, p := range desktop.Programs(env, s.dir, has) {
		spec := keptProgram(p)
		spec.policy = restartOnFailure // not restarted if the user quits it
		if err := s.keep(spec); err != nil {
			s.d.cfg.Log.Warn("cannot start a desktop program", "program", p.Name, "err", err)
		}
	}
	return nil
}

func (s *screen) wakeBus() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.startBus(s.d.environ())
}

func (s *screen) wakeSystemBus() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	spec := keptProgram(desktop.SystemBus())
	spec.root, spec.socket = true, s.system
	return s.keep(spec)
}

// startBus starts D-Bus, if it is installed, with its files and environment. s.mu must
// be held.
func (s *screen) startBus(env []string) error {
	if err := desktop.Furnish(s.dir); err != nil || s.bus == nil {
		return err
	}
	spec := keptProgram(desktop.Bus(env, s.dir))
	spec.socket = s.bus
	return s.keep(spec)
}

func keptProgram(p desktop.Program) processSpec {
	return processSpec{name: p.Name, command: p.Command, env: p.Env, policy: restartAlways}
}

// keep starts a program unless it is already running.
func (s *screen) keep(spec processSpec) error {
	if p, err := s.d.roster.find(spec.name); err == nil && !p.isFinished() {
		return nil
	}
	_, err := s.d.roster.start(spec)
	return err
}

// await calls start once a client connects to a socket. It does not accept the
// connection: the started program does.
func (s *screen) await(socket *os.File, start func() error) {
	raw, err := socket.SyscallConn()
	if err == nil {
		err = raw.Read(func(fd uintptr) bool {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
			return n > 0 || err != nil && !errors.Is(err, unix.EINTR)
		})
	}
	if err == nil {
		err = start()
	}
	if err != nil {
		s.d.cfg.Log.Error("cannot start the desktop", "err", err)
	}
}

// dialDesktop starts the desktop if necessary and connects to its VNC server.
func (d *Daemon) dialDesktop() (up net.Conn, err error) {
	d.mu.Lock()
	s := d.screen
	d.mu.Unlock()
	if s == nil {
		return nil, desktop.Missing()
	}
	if err := s.wake(); err != nil {
		return nil, err
	}
	p, err := d.roster.find(desktop.VNC(nil).Name)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), desktopPatience)
	defer cancel()
	err = p.service.Listening(ctx, func(ctx context.Context) (err error) {
		up, err = dialTCP(ctx, desktop.VNCAddr())
		return err
	})
	return up, err
}

// socketFolder creates a folder in which every user may create sockets.
func socketFolder(path string) error {
	err := os.Mkdir(path, 0o700)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(path)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s: %w", path, unix.ENOTDIR)
	}
	if err != nil {
		return err
	}
	return errors.Join(os.Lchown(path, os.Geteuid(), -1), os.Chmod(path, 0o777|os.ModeSticky))
}

// listenFile listens on a unix socket and returns it for another process to
// accept on.
func listenFile(path string, mode os.FileMode, uid int) (*os.File, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	file := os.NewFile(uintptr(fd), path)
	err = errors.Join(unix.Bind(fd, &unix.SockaddrUnix{Name: path}), unix.Listen(fd, unix.SOMAXCONN))
	if err == nil {
		err = errors.Join(os.Chmod(path, mode), os.Lchown(path, uid, -1))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("socket %s: %w", path, err), file.Close())
	}
	return file, nil
}

// handOver wraps a command so that it receives a socket through systemd's socket
// activation protocol. That protocol needs the process id of the command, so a shell
// sets it.
func handOver(command []string, socket *os.File) (wrapped, env []string, files []*os.File) {
	return append([]string{"/bin/sh", "-c", `LISTEN_PID=$$ exec "$@"`, "sh"}, command...),
		[]string{"LISTEN_FDS=1", "LISTEN_FDNAMES=" + strings.ReplaceAll(filepath.Base(socket.Name()), ":", "_")}, []*os.File{socket}
}
