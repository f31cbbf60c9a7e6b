package mirror

import (
	"context"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
)

// overSSH runs a git command that talks to the repository's server by ssh. ssh
// needs the keys and the configuration of the server's own user, so it is not
// confined; git is, and talks to it through a socket.
func (m *Mirror) overSSH(ctx context.Context, r Repo, inv invocation) (stdout []byte, stderr string, err error) {
	to, err := m.all.route(ctx, r)
	if err != nil {
		return nil, "", err
	}
	host, port, err := net.SplitHostPort(r.dialAddress())
	if err != nil {
		return nil, "", unreachable(r, "its URL has no usable host").Because(err)
	}
	argv := strings.Fields(sshCommand)
	for _, kv := range to.env {
		if with, ok := strings.CutPrefix(kv, "GIT_SSH_COMMAND="); ok {
			argv = strings.Fields(with)
		}
	}
	argv = append(argv, "-o", "SendEnv=GIT_PROTOCOL")
	if port != usualPort["ssh"] {
		argv = append(argv, "-p", port)
	}
	if r.user != "" {
		host = r.user + "@" + host
	}
	path := "/" + r.path
	if strings.HasPrefix(r.path, "~") {
		path = r.path
	}
	quoted := "'" + strings.NewReplacer("'", `'\''`, "!", `'\!'`).Replace(path) + "'"
	return m.through(ctx, r, inv, func(ctx context.Context, service string, env []string, far *os.File) string {
		argv := append(argv, "--", host, "git-"+service+" "+quoted)
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		errs := &headBuffer{max: maxStderr}
		cmd.Env = slices.Concat([]string{"PATH=" + m.all.path, "LC_ALL=C", "HOME=" + m.all.home}, m.all.baseEnv, env)
		cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = "/", far, far, errs
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
		cmd.WaitDelay = stopGrace
		err := cmd.Start()
		_ = far.Close() // ssh has its own copy
		if err != nil {
			return err.Error()
		}
		_ = cmd.Wait() // git fails too, since its connection breaks
		return errs.String()
	})
}
