package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/control/hostd"
	"aloft/internal/server"
	"aloft/internal/server/unprivileged"
)

// Environment variables of the server's process. The first file that the process
// inherits is the listener of the API.
const (
	hostDaemonVariable = "ALOFT_HOST_DAEMON" // address of the host-daemon's socket
	inheritVariable    = "ALOFT_INHERIT"     // set if the process inherits a listener
)

// Descriptors that the server's process inherits.
const (
	firstFile = 3 // the listener
	lockFile  = 4 // the lock of the data folder; the process only keeps it open
)

// hostDaemon returns a host-daemon for the server of the user, and its logger, which the
// caller must close.
func (c serving) hostDaemon(u unprivileged.User) (*hostd.Daemon, io.Closer, error) {
	config, err := server.LoadConfig(c.file, c.getenv)
	if err != nil {
		return nil, nil, err
	}
	logger, setSecrets, log := c.newLogger(config)
	return hostd.New(hostd.Config{
		User: u.ID, Logger: logger,
		Load: func() (text []byte, files map[string][]byte, err error) {
			if text, err = server.ReadConfig(c.file); err != nil {
				return nil, nil, err
			}
			config, err := server.ParseConfig(c.file, text, c.getenv)
			return text, config.ReadScripts(), err
		},
		Open: func(_ context.Context, text []byte) (*hostd.Opened, error) {
			config, err := server.ParseConfig(c.file, text, c.getenv)
			if err != nil {
				return nil, err
			}
			setSecrets(config.SecretValues())
			return server.OpenHost(c.options, config, u.ID, logger)
		},
	}), log, nil
}

// serveAsUser runs the server in a process of the user, and the host-daemon in this
// process, which runs as root.
func serveAsUser(ctx context.Context, c serving, u unprivileged.User) (err error) {
	if _, err := server.LoadConfig(c.file, c.getenv); err != nil { // report errors of the configuration first
		return err
	}
	if err := c.giveData(u); err != nil {
		return err
	}
	lock, err := unprivileged.Lock(c.options.Data, func() {
		fmt.Fprintf(c.log, "waiting for another server on %s to end\n", c.options.Data)
	})
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }() // the server has its own copy
	listener, err := server.Listen(ctx, c.options.Listen)
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }() // the server has its own copy
	file, err := listener.(*net.TCPListener).File()
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	daemon, log, err := c.hostDaemon(u)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	calls, err := listenAbstract()
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx)) // the host-daemon outlives the server
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- daemon.Serve(running, calls) }()

	serving := exec.Command("/proc/self/exe", os.Args[1:]...)
	serving.Args[0] = os.Args[0]
	serving.Env = append(os.Environ(), "HOME="+c.options.Data, hostDaemonVariable+"="+calls.Addr().String(), inheritVariable+"=1")
	serving.Stdout, serving.Stderr, serving.ExtraFiles = os.Stdout, os.Stderr, []*os.File{file, lock}
	process := unprivileged.Process{Cmd: serving, User: u, Show: []string{c.options.Data}}
	err = process.Run(func() { go passSignals(ctx, running, serving.Process) })
	stop()
	return errors.Join(exitOf(err), <-ended)
}

// listenAbstract returns a listener on an abstract socket, which is not in the file
// system.
func listenAbstract() (*net.UnixListener, error) {
	name := fmt.Sprintf("@aloft-host-daemon-%d-%d", os.Getpid(), time.Now().UnixNano())
	return net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
}

// passSignals forwards SIGHUP to the process, and SIGTERM when ctx ends. It returns
// when done ends.
func passSignals(ctx, done context.Context, p *os.Process) {
	hangUp := make(chan os.Signal, 1)
	signal.Notify(hangUp, syscall.SIGHUP)
	defer signal.Stop(hangUp)
	end := ctx.Done()
	for {
		var pass os.Signal
		select {
		case <-done.Done():
			return
		case <-end:
			pass, end = syscall.SIGTERM, nil
		case <-hangUp:
			pass = syscall.SIGHUP
		}
		_ = p.Signal(pass) // the process may have ended
	}
}

// exitOf returns the error for this process, given the error of the server's process,
// which has printed its own error.
func exitOf(err error) error {
	exit, ok := errors.AsType[*exec.ExitError](err)
	switch {
	case !ok:
		return err
	case exit.ExitCode() >= 0:
		return &cli.Problem{Exit: exit.ExitCode(), Code: "server", Err: err}
	}
	return &cli.Problem{
		Exit: cli.Failure, Code: "server_killed", Message: fmt.Sprintf("the server's process has ended: %v", exit),
		Hint: "start the server again: agents continue where they stopped", Err: err,
	}
}

// newHostDaemonCommand returns the command that runs only the host-daemon, for a server
// that the service manager starts as its own user.
func newHostDaemonCommand(a *app) *cobra.Command {
	c := a.newServing()
	var userName, socket string
	cmd := &cobra.Command{
		Use:   "host-daemon",
		Short: "Create machines for a server that is not root",
		Long: `Create machines for a server that is not root.

The host-daemon runs as root. It creates machines, unpacks images, builds Dockerfiles and
runs git as users of its own for the server, which finds it by ALOFT_HOST_DAEMON. With the
packages of Aloft, systemd starts both. Without them, aloft serve starts its own.`,
		Example: `  sudo aloft host-daemon --config /etc/aloft/aloft.yaml --socket /run/aloft/host-daemon.sock`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			u, err := unprivileged.FindUser(userName)
			if err != nil {
				return err
			}
			return c.runHostDaemon(cmd.Context(), u, socket)
		},
	}
	c.addFlags(cmd)
	cmd.Flags().StringVar(&userName, "user", "", "`name` of the server's user (default "+unprivileged.UserName+")")
	cmd.Flags().StringVar(&socket, "socket", "/run/aloft/host-daemon.sock", "`path` of the socket to listen on")
	return cmd
}

// runHostDaemon runs the host-daemon until ctx is done.
func (c serving) runHostDaemon(ctx context.Context, u unprivileged.User, socket string) (err error) {
	if os.Geteuid() != 0 {
		return &cli.Problem{Exit: cli.Failure, Code: "not_root", Message: "the host-daemon must run as root", Hint: "use sudo -E aloft host-daemon"}
	}
	if err := c.completeData(); err != nil {
		return err
	}
	daemon, log, err := c.hostDaemon(u)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	if err := c.giveData(u); err != nil {
		return err
	}
	l, err := c.listenHostDaemon(u, socket)
	if err != nil {
		return err
	}
	if err := notifyReady(c.getenv("NOTIFY_SOCKET")); err != nil {
		return errors.Join(fmt.Errorf("notify the service manager that the host-daemon is ready: %w", err), l.Close())
	}
	return daemon.Serve(ctx, l)
}

// listenHostDaemon returns the socket that the service manager passes, or else listens
// at the path.
func (c serving) listenHostDaemon(u unprivileged.User, socket string) (*net.UnixListener, error) {
	if c.getenv("LISTEN_PID") == strconv.Itoa(os.Getpid()) && c.getenv("LISTEN_FDS") == "1" {
		l, err := net.FileListener(os.NewFile(firstFile, "host-daemon"))
		if err != nil {
			return nil, err
		}
		if unix, ok := l.(*net.UnixListener); ok {
			return unix, nil
		}
		return nil, errors.Join(fmt.Errorf("the service manager passed a socket of type %T", l), l.Close())
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(socket), 0o755); err != nil { //nolint:gosec // the server reaches the socket in it
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.Chmod(socket, 0o600), os.Chown(socket, u.ID, u.Group)); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// notifyReady tells the service manager that this process is serving, as described in
// sd_notify(3).
func notifyReady(socket string) error {
	if socket == "" {
		return nil
	}
	conn, err := net.Dial("unixgram", socket)
	if err != nil {
		return err
	}
	_, err = conn.Write([]byte("READY=1"))
	return errors.Join(err, conn.Close())
}
