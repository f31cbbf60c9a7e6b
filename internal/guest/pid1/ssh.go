package pid1

import (
	"context"
	"fmt"
	"net"
	"path/filepath"

	"golang.org/x/sys/unix"

	"aloft/internal/wire/mux"
)

// sshSocket is the name of exec-daemon's ssh socket in exec-daemon's folder.
const sshSocket = "ssh.sock"

// joinSSH connects a stream to exec-daemon's ssh server.
func (d *Daemon) joinSSH(conn *mux.Conn, stream net.Conn) {
	path := filepath.Join(d.cfg.ExecState, sshSocket)
	d.joinDialed(conn, stream, func(ctx context.Context) (net.Conn, error) { return dialOwned(ctx, path, d.user.Load().UID) })
}

// dialOwned connects to a socket of the agent's user. The user can change the
// socket's folder, and this daemon has more rights than the user. So it refuses
// symbolic links and sockets of other users, and connects to exactly the file
// that it checked, even if the path has changed meanwhile.
func dialOwned(ctx context.Context, path string, uid uint32) (net.Conn, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK || st.Uid != uid {
		return nil, fmt.Errorf("socket %s: not a socket owned by user %d", path, uid)
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d", fd))
}
