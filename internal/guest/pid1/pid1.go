// Package pid1 implements pod-daemon, the first process of a machine. It reaps
// orphans, supervises exec-daemon, boots the machine in named steps, does the
// git operations of the control plane, and shuts everything down in order.
//
// Only the control plane can reach it, through a unix socket. Each connection
// carries streams ([mux]). The control plane opens streams to this daemon and
// to exec-daemon. This daemon opens one for each connection that git makes to
// the git gateway's port in the machine. It does not decide which actions the
// agent may do, and its only secret is the credential of a run.
package pid1

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"aloft/internal/guest/checkout"
	"aloft/internal/guest/process"
	"aloft/internal/guest/pullproxy"
)

// Config is pod-daemon's configuration. Every path is absolute.
type Config struct {
	Socket     string // where the control plane connects
	TraceAddr  string // host:port to which exec-daemon sends trace spans
	EmbedAddr  string // host:port where exec-daemon requests embeddings
	GitAddr    string // host:port of the git gateway in the machine; port 0 is any free port
	ExecAddr   string // host:port of exec-daemon
	PTYAddr    string // host:port of exec-daemon's PTY server
	ManageAddr string // host:port of the management service; "" for none
	PullAddr   string // host:port of Docker's proxy
	InsideAddr string // host:port of the services for programs in the machine; "" for none
	APISocket  string // the metadata socket; "" for none
	Artifacts  string // folder of files that outlive the machine
	TmuxDir    string // tmux creates its socket folder in it
	ExecDaemon string // path of exec-daemon's program
	ExecState  string // exec-daemon's state folder, which survives its restarts
	User       string // user of the agent's processes; "" for the current user
	Workspace  string // folder of the repository, unless Boot gives another
	RunDir     string // git's configuration and credential; need not survive a restart
	DesktopDir string // the desktop's files; need not survive a restart; "" for no desktop
	DataDir    string // records of checkouts; on the machine's disk
	GitConfig  string // git's system configuration, to which an include is added
	DockerConf string // script that configures the service of Docker, to which the proxy is added
	BinDir     string // folder of Aloft's commands, last in the agent's PATH
	Environ    []string
	StopLimit  time.Duration // time limit for shutting down
	Log        *slog.Logger
}

// Daemon is pod-daemon. A process can have only one, because it reaps all
// children.
type Daemon struct {
	cfg      Config
	bootID   string
	user     atomic.Pointer[User] // user of the agent's processes
	reaper   *process.Reaper
	controls controls
	stop     context.CancelCauseFunc

	// turn is a semaphore that serializes operations on the machine and its
	// repositories: boot, commit, push and diff.
	turn chan struct{}
	rest chan struct{} // has a value if a quiesce is requested

	mu     sync.Mutex
	booted bool
	env    map[string]string // given by Boot
	exec   *process.Service  // nil until booted
	token  string            // exec-daemon's token
	tokens []*portToken      // of the ports for programs in the machine
	before int               // restarts of replaced services
	meta   metadata
	roster roster
	repos  []*checkout.Repository // in the order of the Boot request
	git    net.Listener           // nil until booted
	pulls  *pullproxy.Proxy       // nil unless Docker pulls through the control plane
	spans  net.Listener           // nil unless Boot asked for traces
	embed  net.Listener           // nil unless Boot named a model for embeddings
	screen *screen                // nil until booted, or if the image has no VNC server
}

// errShutdown is the reason for stopping when the control plane requests a shutdown.
var errShutdown = errors.New("the control plane requested it")

// New makes a Daemon.
func New(cfg Config) (*Daemon, error) {
	user, err := LookupUser(cfg.User)
	if err != nil {
		return nil, err
	}
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	d := &Daemon{
		cfg:    cfg,
		bootID: hex.EncodeToString(id),
		reaper: process.NewReaper(),
		turn:   make(chan struct{}, 1),
		rest:   make(chan struct{}, 1),
	}
	d.user.Store(&user)
	d.roster.d = d
	return d, nil
}

// Run serves until ctx ends or the control plane requests a shutdown. Then it
// stops every process in the machine, and returns nil if that succeeds.
func (d *Daemon) Run(ctx context.Context) error {
	if os.Getpid() != 1 {
		// As the machine's first process, this daemon inherits orphans anyway. The call is for
		// tests and other setups.
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("adopt orphans: %w", err)
		}
	}
	ctx, d.stop = context.WithCancelCause(ctx)
	defer d.stop(nil)
	defer d.reap()()

	socket, err := listenSocket(ctx, d.cfg.Socket)
	if err != nil {
		return err
	}
	server := newPodServer(d)
	closeAPI, err := d.serveAPI(ctx)
	if err != nil {
		return errors.Join(err, socket.Close())
	}
	defer closeAPI()
	d.cfg.Log.Info("pod-daemon is up", "socket", d.cfg.Socket, "boot", d.bootID, "pid", os.Getpid())
	failed := make(chan error, 1)
	go func() { failed <- d.serveControl(ctx, socket, server) }()
	go d.forwardSignals(ctx)
	select {
	case <-ctx.Done():
		d.cfg.Log.Info("stopping", "why", context.Cause(ctx))
		err = <-failed
	case err = <-failed:
	}
	return errors.Join(err, d.end(server))
}

// reap reaps children until the returned function is called.
func (d *Daemon) reap() (stop func()) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	quit, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		for {
			d.reaper.Reap()
			select {
			case <-ended:
			case <-quit:
				return
			}
		}
	}()
	return func() {
		signal.Stop(ended)
		close(quit)
		<-over
	}
}

// forwardSignals forwards signals that this daemon does not handle to
// exec-daemon.
func (d *Daemon) forwardSignals(ctx context.Context) {
	got := make(chan os.Signal, 8)
	signal.Notify(got, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
	defer signal.Stop(got)
	for {
		select {
		case sig := <-got:
			d.mu.Lock()
			exec := d.exec
			d.mu.Unlock()
			if number, ok := sig.(syscall.Signal); ok && exec != nil {
				if child := exec.Running(); child != nil {
					child.Signal(number)
				}
			}
		case <-ctx.Done():
			return
		}
	}
}

// end stops all processes: first exec-daemon, which would otherwise see its shells die,
// then the others. It kills those that do not stop in time.
func (d *Daemon) end(server *podServer) error {
	ctx, cancel := context.WithTimeout(context.Background(), d.cfg.StopLimit)
	defer cancel()
	d.mu.Lock()
	exec, pulls := d.exec, d.pulls
	for _, l := range []net.Listener{d.git, d.spans, d.embed} {
		if l != nil {
			_ = l.Close()
		}
	}
	d.mu.Unlock()
	if pulls != nil {
		_ = pulls.Close()
	}
	server.quiesce(ctx, d.cfg.StopLimit/10)
	if exec != nil {
		exec.Stop(d.cfg.StopLimit * 3 / 10)
	}
	d.roster.stopAll(d.cfg.StopLimit * 3 / 10)
	err := d.reaper.EndStrays(ctx, d.cfg.StopLimit*2/10)
	d.reaper.KillOwn()
	d.controls.close()
	_ = os.Remove(d.cfg.Socket)
	return err
}

// take waits for exclusive use of the machine. The returned function releases it.
func (d *Daemon) take(ctx context.Context) (giveBack func(), err error) {
	select {
	case d.turn <- struct{}{}:
		return func() { <-d.turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// environ returns the environment of the agent's processes. The caller does not
// hold d.mu.
func (d *Daemon) environ() []string {
	d.mu.Lock()
	given := d.env
	d.mu.Unlock()
	return d.environWith(given)
}

// ownEnviron returns the environment of Aloft's own programs. The caller does
// not hold d.mu.
func (d *Daemon) ownEnviron() []string {
	return OwnEnviron(d.environWith(nil), *d.user.Load(), d.workspace())
}

func (d *Daemon) environWith(given map[string]string) []string {
	env := Environ(append(d.displayEnviron(), d.cfg.Environ...), *d.user.Load(), given, d.cfg.BinDir, exists)
	if d.cfg.APISocket != "" {
		env = append(env, "CURSOR_AGENT_SOCKET="+d.cfg.APISocket, "ALOFT_INSIDE_TOKEN_FILE="+d.insideTokenFile())
	}
	if d.cfg.TmuxDir != usualTmuxDir {
		env = append(env, "TMUX_TMPDIR="+d.cfg.TmuxDir)
	}
	if d.cfg.GitConfig != systemGitConfig {
		env = append(env, "GIT_CONFIG_SYSTEM="+d.cfg.GitConfig)
	}
	return env
}

// systemGitConfig is git's default system configuration file.
const systemGitConfig = "/etc/gitconfig"

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
