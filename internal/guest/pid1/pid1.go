// Package pid1 is pod-daemon: the first process of a machine. It reaps
// orphans, keeps exec-daemon running, boots the machine in named steps, does
// the work on the repository that is not the agent's own, and ends everything
// in order.
//
// It is reached through a unix socket, by the control plane only. Each
// connection carries streams ([mux]): the control plane opens those to this
// daemon and to exec-daemon; this daemon opens one for each connection that git
// makes to the gateway's port in the machine. It judges nothing that the agent
// does, and keeps no secret but the credential of a run.
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
)

// Config is what pod-daemon is told at its start. Every path is absolute.
type Config struct {
	Socket     string // where the control plane connects
	TraceAddr  string // host:port where exec-daemon sends its spans
	GitAddr    string // host:port of the gateway in the machine; port 0 is any
	ExecAddr   string // host:port of exec-daemon
	PTYAddr    string // host:port of its PTYs
	ManageAddr string // host:port of the management services; "" is none
	InsideAddr string // host:port of the services for programs inside; "" is none
	APISocket  string // the metadata socket; "" is none
	Artifacts  string // folder of files that outlive the machine
	TmuxDir    string // below which tmux puts its socket
	ExecDaemon string // its program
	ExecState  string // its folder; outlives its restarts
	User       string // of the agent's processes; "" is this process's own
	Workspace  string // where the repository is, unless Boot says otherwise
	RunDir     string // git's configuration and credential; may be lost at a restart
	DesktopDir string // of the desktop's files; may be lost at a restart; "" is no desktop
	DataDir    string // what was checked out; on the machine's disk
	GitConfig  string // git's system configuration; an include is put in
	BinDir     string // Aloft's commands, last on the agent's PATH
	Environ    []string
	StopLimit  time.Duration // from being told to stop to being gone
	Log        *slog.Logger
}

// Daemon is pod-daemon. There can be one in a process.
type Daemon struct {
	cfg      Config
	bootID   string
	user     atomic.Pointer[User] // of the agent's processes
	reaper   *Reaper
	controls controls
	stop     context.CancelCauseFunc

	// turn holds the right to change the machine or its repository: one boot,
	// commit, push or diff at a time.
	turn chan struct{}
	rest chan struct{} // holds the wish to be saved

	mu     sync.Mutex
	booted bool
	env    map[string]string // given by Boot
	exec   *service          // nil until booted
	token  string            // exec-daemon's
	tokens []*portToken      // of the ports for programs in the machine
	before int               // restarts of services that were replaced
	meta   metadata
	kept   roster
	repos  []*checkout.Repository // as Boot has them
	git    net.Listener           // nil until booted
	spans  net.Listener           // nil unless a boot asked for traces
	screen *screen                // nil until booted, or where the image has no VNC server
}

// errShutdown is why a daemon stops that was told to by the control plane.
var errShutdown = errors.New("the control plane said so")

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
		reaper: NewReaper(),
		turn:   make(chan struct{}, 1),
		rest:   make(chan struct{}, 1),
	}
	d.user.Store(&user)
	d.kept.d = d
	return d, nil
}

// Run serves until ctx ends or the control plane says Shutdown, then stops
// every process of the machine, and returns nil when that went well.
func (d *Daemon) Run(ctx context.Context) error {
	if os.Getpid() != 1 {
		// In a machine of its own orphans come here by themselves.
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

// reap reaps until the returned function is called.
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

// forwardSignals passes on to exec-daemon what is not this daemon's to heed.
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
				if child := exec.running(); child != nil {
					child.Signal(number)
				}
			}
		case <-ctx.Done():
			return
		}
	}
}

// end stops everything, from the outside in: exec-daemon first, since it would
// see its shells die; then what they left; what does not heed is killed.
func (d *Daemon) end(server *podServer) error {
	ctx, cancel := context.WithTimeout(context.Background(), d.cfg.StopLimit)
	defer cancel()
	d.mu.Lock()
	exec, git, spans := d.exec, d.git, d.spans
	d.mu.Unlock()
	if git != nil {
		_ = git.Close()
	}
	if spans != nil {
		_ = spans.Close()
	}
	server.quiesce(ctx, d.cfg.StopLimit/10)
	if exec != nil {
		exec.stop(d.cfg.StopLimit * 3 / 10)
	}
	d.kept.stopAll(d.cfg.StopLimit * 3 / 10)
	err := d.reaper.EndStrays(ctx, d.cfg.StopLimit*2/10)
	d.reaper.KillOwn()
	d.controls.close()
	_ = os.Remove(d.cfg.Socket)
	return err
}

// take waits for the right to change the machine. The returned function gives
// it back.
func (d *Daemon) take(ctx context.Context) (giveBack func(), err error) {
	select {
	case d.turn <- struct{}{}:
		return func() { <-d.turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// environ is the environment of the agent's processes. d.mu must not be held.
func (d *Daemon) environ() []string {
	d.mu.Lock()
	given := d.env
	d.mu.Unlock()
	return d.environWith(given)
}

// ownEnviron is the environment of Aloft's own programs. d.mu must not be held.
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

// systemGitConfig is where git looks by itself.
const systemGitConfig = "/etc/gitconfig"

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
