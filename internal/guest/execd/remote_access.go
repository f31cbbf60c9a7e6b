package execd

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"aloft/internal/fault"
)

// remoteStart is how long an editor server may take until it listens.
const remoteStart = 30 * time.Second

// RemoteServer is a program through which an editor reaches a machine.
type RemoteServer struct {
	// Paths are where the program may be: a name to look for in PATH, or a glob
	// of absolute paths, in which %s is the requested build and ~ is home.
	Paths []string
	// Args are its arguments; Env are its variables.
	Args func(port int, token, workspace string) []string
	Env  func(token string) []string
}

// usualServers are the editor servers that images commonly have.
var usualServers = []RemoteServer{
	{
		Paths: []string{
			"~/.cursor-server/bin/%s/bin/cursor-server", "~/.cursor-server/cli/servers/Stable-%s/server/bin/cursor-server",
			"~/.vscode-server/bin/%s/bin/code-server", "openvscode-server",
		},
		Args: func(port int, token, _ string) []string {
			return []string{"--host", "127.0.0.1", "--port", strconv.Itoa(port), "--connection-token", token, "--accept-server-license-terms"}
		},
	},
	{
		Paths: []string{"code-server"},
		Args: func(port int, _, workspace string) []string {
			return []string{"--bind-addr", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), "--auth", "password", "--disable-telemetry", "--disable-update-check", workspace}
		},
		Env: func(token string) []string { return []string{"PASSWORD=" + token} },
	},
}

// remoteAccess starts at most one editor server. It only starts programs that
// are in the machine already. Its methods are safe for concurrent use.
type remoteAccess struct {
	servers   []RemoteServer
	workspace string
	environ   []string // environment of the program
	log       *slog.Logger

	mu      sync.Mutex
	cmd     *exec.Cmd
	ended   chan struct{} // closed when cmd has exited
	program string
	port    int
	token   string
}

func newRemoteAccess(servers []RemoteServer, workspace string, environ []string, log *slog.Logger) *remoteAccess {
	if servers == nil {
		servers = usualServers
	}
	return &remoteAccess{servers: servers, workspace: workspace, environ: environ, log: log}
}

// find returns the first program that exists.
func (r *remoteAccess) find(build string) (program string, of RemoteServer, err error) {
	home, _ := os.UserHomeDir() // without a home folder nothing is found there
	for _, server := range r.servers {
		for _, place := range server.Paths {
			if !filepath.IsAbs(place) && place[0] != '~' {
				if path, err := exec.LookPath(place); err == nil {
					return path, server, nil
				}
				continue
			}
			if place[0] == '~' {
				place = home + place[1:]
			}
			pattern := build
			if pattern == "" {
				pattern = "*"
			}
			if filepath.Base(place) != place && containsVerb(place) {
				place = fmt.Sprintf(place, pattern)
			}
			found, _ := filepath.Glob(place) // the pattern is known to be valid
			for _, path := range found {
				if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
					return path, server, nil
				}
			}
		}
	}
	missing := fault.NotFound("there is no editor server in this machine").Named("remote_server_missing")
	if build != "" {
		missing = fault.NotFound("there is no editor server of the build %.64q in this machine", build).Named("remote_server_missing").At("commit")
	}
	return "", of, missing.Hint("install code-server or openvscode-server in the environment's image, on PATH, or put a build of the editor's server below ~/.cursor-server/bin; " +
		"nothing is downloaded here. Connecting by ssh needs none of this")
}

func containsVerb(s string) bool {
	for i := range len(s) - 1 {
		if s[i] == '%' && s[i+1] == 's' {
			return true
		}
	}
	return false
}

// warm starts the program, or returns the address of the one that is running.
func (r *remoteAccess) warm(ctx context.Context, port int) (program string, at int, token string, already bool, err error) {
	if port < 0 || port > 65535 {
		return "", 0, "", false, fault.Invalid("%d is not a valid port", port).At("port")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cmd != nil {
		select {
		case <-r.ended:
		default:
			if port != 0 && port != r.port {
				return "", 0, "", false, fault.Conflict("the editor server already listens on port %d", r.port).At("port")
			}
			return r.program, r.port, r.token, true, nil
		}
	}
	path, server, err := r.find("")
	if err != nil {
		return "", 0, "", false, err
	}
	if port != 0 {
		err = r.start(ctx, path, server, port)
	} else {
		// Another process may take a free port before the program listens on
		// it.
		for tries := 0; tries == 0 || tries < freePorts && fault.Of(err).Code == codeEnded; tries++ {
			if port, err = freePort(ctx); err == nil {
				err = r.start(ctx, path, server, port)
			}
		}
	}
	if err != nil {
		return "", 0, "", false, err
	}
	return r.program, r.port, r.token, false, nil
}

// freePorts is how many times to start a program that exits before it listens,
// each time on another free port.
const freePorts = 2

const codeEnded = "remote_server_ended"

// start starts the program and waits until it listens. r.mu must be held.
func (r *remoteAccess) start(ctx context.Context, path string, server RemoteServer, port int) error {
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails
	r.program, r.port, r.token = path, port, hex.EncodeToString(secret[:])
	cmd := exec.Command(path, server.Args(port, r.token, r.workspace)...) //nolint:noctx // it outlives the request
	cmd.Dir, cmd.SysProcAttr = r.workspace, &syscall.SysProcAttr{Setsid: true}
	cmd.Env = append([]string(nil), r.environ...)
	if server.Env != nil {
		cmd.Env = append(cmd.Env, server.Env(r.token)...)
	}
	if err := cmd.Start(); err != nil {
		return fault.Unavailable("the editor server %s does not start", path).Because(err)
	}
	ended := make(chan struct{})
	r.cmd, r.ended = cmd, ended
	go func() {
		err := cmd.Wait()
		r.log.Info("the editor server has ended", "program", path, "error", err)
		close(ended)
	}()
	if err := r.listening(ctx); err != nil {
		r.stop()
		return err
	}
	return nil
}

// listening waits until the program listens. r.mu must be held.
func (r *remoteAccess) listening(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, remoteStart, fault.Unavailable("the editor server %s did not listen within %s", r.program, remoteStart))
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var dialer net.Dialer
	for {
		conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(r.port)))
		if err == nil {
			return conn.Close()
		}
		select {
		case <-r.ended:
			return fault.Unavailable("the editor server %s ended before it listened", r.program).Named(codeEnded).Hint("start it in a terminal to see why")
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// stop kills the program. r.mu must be held.
func (r *remoteAccess) stop() {
	if r.cmd == nil {
		return
	}
	select {
	case <-r.ended:
	default:
		_ = syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL) // it may have exited already
		<-r.ended
	}
	r.cmd = nil
}

func (r *remoteAccess) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stop()
}

func freePort(ctx context.Context) (int, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	addr, _ := l.Addr().(*net.TCPAddr)
	return addr.Port, l.Close()
}
