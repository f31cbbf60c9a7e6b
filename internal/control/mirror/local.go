package mirror

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"aloft/internal/control/confine"
	"aloft/internal/control/mirror/owner"
	"aloft/internal/control/repourl"
	"aloft/internal/fault"
	"aloft/internal/gitcmd"
)

// A Host does the work of this package that may need root's rights. It runs git
// as separate users, changes the owners of files, and uses this host's ssh keys
// and repositories. [Local] does this in the current process; package hostd has
// a Host that asks a process of root. Its methods are safe for concurrent use.
type Host interface {
	// Confined returns nil if Run confines commands, and otherwise the reason
	// why not.
	Confined() error
	// Run runs a command on mirrors; see [confine.Host.Run].
	Run(ctx context.Context, c confine.Command) error

	// Share, Tidy, TakeBack and Empty work on a folder of the server; see
	// package owner. Empty succeeds if the folder is missing.
	Share(dir string, user int) error
	Tidy(dir string, user int) error
	TakeBack(dir string) error
	Empty(dir string) error

	// SSH runs git's service (upload-pack or receive-pack) for the repository
	// on its ssh server, with far as its input and output. If pin is valid, ssh
	// connects to that address. SSH closes far and returns what ssh printed on
	// stderr.
	SSH(ctx context.Context, url string, pin netip.Addr, service string, env []string, far *os.File) (stderr string)
	// KnownToSSH reports whether ssh's configuration sends the connection to
	// another host, or a known_hosts file has the host's key.
	KnownToSSH(ctx context.Context, host, port string) bool
	// MayServe reports whether a file:// repository is in one of the folders of
	// Files.
	MayServe(url string) bool
	// Serve runs git's service for a repository of this host, with far as its input
	// and output, and closes far. A repository that may not be used is a fault.
	Serve(ctx context.Context, url, service string, env []string, far *os.File) (stderr string, err error)
}

// LocalConfig configures a [Local].
type LocalConfig struct {
	Dir string // folder of the mirrors
	// Files and Private are as in [Config].
	Files, Private []string
	GitPath        string   // defaults to "git" on the PATH
	Environ        []string // as in [Config]
	Server         int      // user id of the server that works on the mirrors
}

// Local is a [Host] that works in the current process, with this process's
// rights.
type Local struct {
	gitPath, path string
	baseEnv       []string
	files         []root
	private       []string
	server        owner.Server
	jails         *confine.Host // nil if this host cannot confine commands
	unconfined    error         // why this host cannot confine commands
}

var _ Host = (*Local)(nil)

// NewLocal returns a Local. It fails if git is missing, or a folder of Files is
// invalid.
func NewLocal(c LocalConfig) (*Local, error) {
	l := &Local{server: owner.Server(c.Server)}
	var err error
	if l.gitPath, err = findGit(c.GitPath); err != nil {
		return nil, err
	}
	if l.files, l.private, err = folders(c); err != nil {
		return nil, err
	}
	l.baseEnv, l.path = baseEnviron(c.Environ)
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, err
	}
	l.jails, l.unconfined = confine.Open(dir)
	return l, nil
}

// findGit returns the path of git. An empty name means "git".
func findGit(given string) (string, error) {
	name := cmp.Or(given, gitcmd.Program)
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("git is needed and was not found; install it (apt-get install git): %w", err)
	}
	return path, nil
}

// Confined implements [Host].
func (l *Local) Confined() error { return l.unconfined }

// Run implements [Host].
func (l *Local) Run(ctx context.Context, c confine.Command) error {
	if l.jails == nil {
		return runUnconfined(ctx, c)
	}
	return l.jails.Run(ctx, c)
}

// runUnconfined runs a command as this process's user, with the limits of its jail.
func runUnconfined(ctx context.Context, c confine.Command) error {
	c.SetCancel()
	err := c.Cmd.Start()
	c.Started()
	if err != nil {
		return err
	}
	limit(c.Cmd.Process.Pid, unix.RLIMIT_DATA, c.Jail.DataBytes)
	limit(c.Cmd.Process.Pid, unix.RLIMIT_FSIZE, c.Jail.FileBytes)
	return confine.Wait(ctx, c)
}

// unconfinedHost is a [Host] that cannot confine commands, or cannot confine
// them well enough. Commands run as this process's user, who owns all files.
type unconfinedHost struct{ Host }

// Run implements [Host].
func (unconfinedHost) Run(ctx context.Context, c confine.Command) error { return runUnconfined(ctx, c) }

// Share implements [Host].
func (unconfinedHost) Share(string, int) error { return nil }

// Tidy implements [Host].
func (h unconfinedHost) Tidy(dir string, _ int) error { return h.Host.Tidy(dir, 0) }

// TakeBack implements [Host].
func (unconfinedHost) TakeBack(string) error { return nil }

// Share implements [Host].
func (l *Local) Share(dir string, user int) error {
	return in(dir, func(root *os.Root) error { return l.server.Share(root, user) })
}

// Tidy implements [Host].
func (l *Local) Tidy(dir string, user int) error {
	return in(dir, func(root *os.Root) error { return l.server.Tidy(root, user) })
}

// TakeBack implements [Host].
func (l *Local) TakeBack(dir string) error {
	return in(dir, l.server.TakeBack)
}

// Empty implements [Host].
func (l *Local) Empty(dir string) error {
	err := in(dir, l.server.Empty)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// in opens the folder dir and calls f with it.
func in(dir string, f func(*os.Root) error) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // nothing was written through it
	return f(root)
}

// KnownToSSH implements [Host].
func (l *Local) KnownToSSH(ctx context.Context, host, port string) bool {
	if _, err := repourl.Parse("ssh://" + net.JoinHostPort(host, port) + "/r"); err != nil {
		return false // ssh's configuration may put the host name into a command
	}
	run := func(program string, args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Env = append([]string{"PATH=" + l.path}, l.baseEnv...)
		out, err := cmd.Output()
		return string(out), err
	}
	// ssh changes some host names even without configuration: 127.1 becomes
	// 127.0.0.1.
	plain, err := run("ssh", "-F", "none", "-G", "-p", port, "--", host)
	if err != nil {
		return false // git fails for the same reason
	}
	out, err := run("ssh", "-G", "-p", port, "--", host)
	if err != nil {
		return false
	}
	name := knownAs(host, port)
	var files []string
	for line := range strings.Lines(out) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch key {
		case "hostname", "proxycommand", "proxyjump":
			if !strings.Contains("\n"+plain, "\n"+line) {
				return true
			}
		case "hostkeyalias":
			name = value
		case "userknownhostsfile", "globalknownhostsfile":
			files = append(files, strings.Fields(value)...)
		}
	}
	for _, file := range files {
		if _, err := run("ssh-keygen", "-F", name, "-f", file); err == nil {
			return true
		}
	}
	return false
}

// SSH implements [Host]. ssh needs the keys and the configuration of this process's
// user, so it is not confined.
func (l *Local) SSH(ctx context.Context, url string, pin netip.Addr, service string, env []string, far *os.File) (stderr string) {
	defer func() { _ = far.Close() }() // ssh has its own copy
	argv, err := sshArgs(url, pin, service)
	if err != nil {
		return err.Error()
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...) //nolint:gosec // sshArgs checks the parts
	errs := &headBuffer{max: maxStderr}
	// Use no folder of the server, because a ProxyCommand may read its
	// configuration from the working directory or HOME.
	cmd.Env = slices.Concat([]string{"PATH=" + l.path, "LC_ALL=C", "HOME=/nonexistent"}, l.baseEnv, env)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = "/", far, far, errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = stopGrace
	err = cmd.Start()
	_ = far.Close() // otherwise git would not see the end of the connection
	if err != nil {
		return err.Error()
	}
	_ = cmd.Wait() // git fails too, since its connection breaks
	return errs.String()
}

// sshArgs returns the command that runs git's service for the repository at url.
func sshArgs(url string, pin netip.Addr, service string) ([]string, error) {
	r, err := repourl.Parse(url)
	if err != nil {
		return nil, err
	}
	if r.Scheme() != "ssh" || service != "upload-pack" && service != "receive-pack" {
		return nil, fmt.Errorf("no ssh service %q of %s", service, r)
	}
	if pin.Zone() != "" {
		// The zone of an IPv6 address can be any text, and a ProxyCommand in
		// ssh's configuration may pass it to a shell.
		return nil, errors.New("no address with a zone can be pinned")
	}
	host, port, err := net.SplitHostPort(r.DialAddress())
	if err != nil {
		return nil, err
	}
	argv := append(strings.Fields(sshCommand), pinned(pin, host, port)...)
	argv = append(argv, "-o", "SendEnv=GIT_PROTOCOL")
	if port != repourl.DefaultPort("ssh") {
		argv = append(argv, "-p", port)
	}
	if r.User() != "" {
		host = r.User() + "@" + host
	}
	path := "/" + r.Decoded()
	if strings.HasPrefix(r.Decoded(), "~") {
		path = r.Decoded()
	}
	quoted := "'" + strings.NewReplacer("'", `'\''`, "!", `'\!'`).Replace(path) + "'"
	return append(argv, "--", host, "git-"+service+" "+quoted), nil
}

// pinned returns the options with which ssh connects to the address instead of
// looking up the host.
func pinned(pin netip.Addr, host, port string) []string {
	if !pin.IsValid() {
		return nil
	}
	return []string{"-o", "HostName=" + pin.String(), "-o", "HostKeyAlias=" + knownAs(host, port)}
}

// MayServe implements [Host].
func (l *Local) MayServe(url string) bool {
	r, err := repourl.Parse(url)
	if err != nil || r.Scheme() != "file" {
		return false
	}
	_, _, ok := l.rootOf(r)
	return ok
}

// Serve implements [Host].
func (l *Local) Serve(ctx context.Context, url, service string, env []string, far *os.File) (stderr string, err error) {
	defer func() { _ = far.Close() }() // git has its own copy
	r, err := repourl.Parse(url)
	if err == nil && (r.Scheme() != "file" || service != "upload-pack" && service != "receive-pack") {
		err = fault.Invalid("no service %q of %s", service, r)
	}
	if err != nil {
		return "", err
	}
	v, err := l.open(ctx, r)
	if err != nil {
		return "", err
	}
	defer v.close()
	dir, err := openat(v.dir, ".", unix.O_PATH|unix.O_DIRECTORY) // a copy for the process
	if err != nil {
		return "", err
	}
	// The service may run as a user who cannot access the mirror's folder.
	g := gitcmd.Git{Program: l.gitPath, Path: l.path, Config: settings, System: v.system, Env: env}
	cmd := g.Command(ctx, service, v.standIn.Dir)
	errs := &headBuffer{max: maxStderr}
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles, cmd.WaitDelay = "/", far, far, errs, []*os.File{dir}, stopGrace
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: v.as}
	c := confine.Command{Cmd: cmd, Stop: func() unix.Signal { return unix.SIGTERM }}
	c.SetCancel()
	err = cmd.Start()
	_, _ = far.Close(), dir.Close() // otherwise git would not see the end of the connection
	if err != nil {
		return err.Error(), nil
	}
	_ = confine.Wait(ctx, c) // the command at the other end fails too
	return errs.String(), nil
}

// settings parses the text of a configuration file with git config, and returns
// its output. With these arguments git reads no other file and follows no
// includes.
func (l *Local) settings(ctx context.Context, text string) ([]byte, error) {
	g := gitcmd.Git{Program: l.gitPath, Path: l.path, Config: settings}
	cmd := g.Command(ctx, "config", "--file", "-", "--no-includes", "--null", "--list")
	var out, errs bytes.Buffer
	cmd.Dir, cmd.Stdin, cmd.WaitDelay = "/", strings.NewReader(text), stopGrace
	cmd.Stdout, cmd.Stderr = &limitWriter{w: &out, left: maxStdout}, &headBuffer{max: maxStderr}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err := l.Run(ctx, confine.Command{
		Cmd: cmd, Jail: confine.Jail{User: confine.Nobody}, Started: func() {}, Stop: func() unix.Signal { return unix.SIGKILL },
	})
	if err != nil {
		return nil, &gitError{[]string{"config"}, errs.String(), err}
	}
	return out.Bytes(), nil
}
