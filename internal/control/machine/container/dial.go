package container

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"aloft/internal/control/machine"
	"aloft/internal/control/poll"
)

// socketName is the file name of pod-daemon's socket in the folder that the
// machine sees as /run/aloft.
const socketName = "pod.sock"

// Dial implements [machine.Machine].
func (m *Machine) Dial(ctx context.Context) (net.Conn, error) {
	conn, err := m.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("dial machine %s: %w", m.id, err)
	}
	return conn, nil
}

func (m *Machine) dial(ctx context.Context) (net.Conn, error) {
	wait := poll.New(20 * time.Millisecond)
	for {
		conn, err := connect(ctx, m.path("run"))
		if err == nil && m.running() {
			return conn, nil
		}
		if err == nil {
			// The socket of a dying machine can still accept a connection.
			_ = conn.Close()
			err = unix.ECONNREFUSED
		}
		if !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ECONNREFUSED) {
			return nil, err
		}
		if !m.running() {
			return nil, fmt.Errorf("%w (see its log in %s)", machine.ErrStopped, m.path("log"))
		}
		if stopped := wait.Pause(ctx); stopped != nil {
			return nil, fmt.Errorf("wait for pod-daemon to listen: %w", stopped)
		}
	}
}

// connect connects to pod-daemon's socket in dir, which root in the machine
// controls. It refuses symbolic links and anything that is not a socket, so
// that a machine cannot redirect the server to a socket of the host. Connecting
// through a descriptor avoids a race between check and use, and is not subject
// to the length limit of socket paths.
func connect(ctx context.Context, dir string) (net.Conn, error) {
	parent, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	defer func() { _ = unix.Close(parent) }()
	fd, err := unix.Openat2(parent, socketName, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: socketName, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return nil, errors.New("pod-daemon's socket is not a socket: a process in the machine has replaced it")
	}
	var d net.Dialer
	return d.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d", fd))
}
