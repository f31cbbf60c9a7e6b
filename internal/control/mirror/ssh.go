package mirror

import (
	"context"
	"os"

	"aloft/internal/control/repourl"
)

// overSSH runs a git command that talks to the repository's server by ssh. The host runs
// ssh, which is never confined, and git talks to it through a socket.
func (m *Mirror) overSSH(ctx context.Context, r repourl.Repo, inv invocation) (stdout []byte, stderr string, err error) {
	to, err := m.all.route(ctx, r)
	if err != nil {
		return nil, "", err
	}
	return m.through(ctx, r, inv, func(ctx context.Context, service string, env []string, far *os.File) string {
		return m.all.host.SSH(ctx, r.String(), to.pin, service, env, far)
	})
}
