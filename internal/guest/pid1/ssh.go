package pid1

import (
	"context"
	"fmt"
	"net"
	"path/filepath"

	"golang.org/x/sys/unix"

	"aloft/internal/wire/mux"
)

// sshSocket is the socket of exec-daemon's ssh server, in its folder.
const sshSocket = "ssh.sock"

// joinSSH joins a stream to exec-daemon's ssh server.
func (d *Daemon) joinSSH(conn *mux.Conn, stream net.Conn) {
	path := filepath.Join(d.cfg.ExecState, sshSocket)
	d.joinDialed(conn, stream, func(ctx context.Context) (net.Conn, error) { return dialOwned(ctx, path, d.user.Load().UID) })
}

// dialOwned connects to a socket of the user's. The folder it is in is the
// user's too, and this daemon may connect to more than they: a link, or a
// socket of another's, is refused, and what was looked at is what is connected
// to, whatever the path has come to name.
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
		return nil, fmt.Errorf("socket %s: it is not a socket of user %d", path, uid)
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d", fd))
}
