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

// desktopPatience bounds the wait for a VNC server that has been started: it
// takes 0.2 s where nothing else wants the processors. The control plane waits
// for 10 s.
const desktopPatience = 9 * time.Second

// screen is the machine's display, on whose socket this daemon listens until
// somebody connects. The server of the display is handed the socket, so that it
// is there between two lives of the server, and clients wait meanwhile.
type screen struct {
	d   *Daemon
	dir string // of the desktop's files

	x11, bus *os.File // sockets; bus is nil where there is no D-Bus

	mu sync.Mutex // held while programs are started
}

// displayEnviron is the environment's part of programs that want the display.
func (d *Daemon) displayEnviron() []string {
	d.mu.Lock()
	s := d.screen
	d.mu.Unlock()
	if s == nil {
		return nil
	}
	return desktop.Environ(s.busSocket())
}

// serveDisplay listens on the display where the image has a VNC server. The
// first who connects has the desktop started.
func (d *Daemon) serveDisplay() error {
	env := d.environ()
	if d.cfg.DesktopDir == "" || lookPath("Xtigervnc", env) == "" {
		return nil
	}
	s := &screen{d: d, dir: d.cfg.DesktopDir}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	if err := socketFolder(desktop.SocketDir); err != nil {
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
	d.mu.Lock()
	defer d.mu.Unlock()
	d.screen = s
	return nil
}

func (s *screen) busPath() string { return filepath.Join(s.dir, "bus") }

// busSocket is where D-Bus listens; "" where there is none.
func (s *screen) busSocket() string {
	if s.bus == nil {
		return ""
	}
	return s.busPath()
}

// wake starts what of the desktop does not run. Its error is of the display: a
// screen without windows on it is a screen, too.
func (s *screen) wake() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	env := s.d.environ()
	spec := keptProgram(desktop.VNC(env))
	// One that was killed leaves it behind, and the next might take its number
	// for another process's. That it is ours the socket says.
	spec.stale = "/tmp/.X" + strconv.Itoa(desktop.Display) + "-lock"
	spec.socket = s.x11
	if err := s.keep(spec); err != nil {
		return err
	}
	if err := s.startBus(env); err != nil {
		s.d.cfg.Log.Error("the desktop is bare", "err", err)
		return nil
	}
	has := func(command string) bool { return lookPath(command, env) != "" }
	for _, p := range desktop.Programs(env, s.dir, has) {
		spec := keptProgram(p)
		spec.policy = restartOnFailure // one that a person has ended stays so
		if err := s.keep(spec); err != nil {
			s.d.cfg.Log.Warn("the desktop lacks a program", "program", p.Name, "err", err)
		}
	}
	return nil
}

func (s *screen) wakeBus() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.startBus(s.d.environ())
}

// startBus starts D-Bus, where there is one, with what it and the programs look
// for. s.mu is held.
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

// keep starts a program unless it is kept already.
func (s *screen) keep(spec processSpec) error {
	if p, err := s.d.kept.find(spec.name); err == nil && !p.over() {
		return nil
	}
	_, err := s.d.kept.start(spec)
	return err
}

// await calls start once somebody connects to a socket, and leaves them to whom
// that starts.
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
		s.d.cfg.Log.Error("the desktop is not started", "err", err)
	}
}

// dialDesktop connects to the desktop's VNC server, having started it.
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
	p, err := d.kept.find(desktop.VNC(nil).Name)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), desktopPatience)
	defer cancel()
	err = p.service.listening(ctx, func(ctx context.Context) (err error) {
		up, err = dialTCP(ctx, desktop.VNCAddr())
		return err
	})
	return up, err
}

// socketFolder makes the folder in which anybody may make a socket of theirs.
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

// listenFile listens on a unix socket for somebody else to accept.
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

// handOver has a command find a socket as systemd hands them over: its process
// knows by its own number that the socket is meant for it.
func handOver(command []string, socket *os.File) (wrapped, env []string, files []*os.File) {
	return append([]string{"/bin/sh", "-c", `LISTEN_PID=$$ exec "$@"`, "sh"}, command...),
		[]string{"LISTEN_FDS=1", "LISTEN_FDNAMES=" + strings.ReplaceAll(filepath.Base(socket.Name()), ":", "_")}, []*os.File{socket}
}
