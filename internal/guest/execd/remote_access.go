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

// remoteStart bounds an editor server's way from its start to listening.
const remoteStart = 30 * time.Second

// RemoteServer is a program with which an editor reaches a machine.
type RemoteServer struct {
	// Paths where it may be: a name to look for along PATH, or a pattern of
	// absolute paths, in which %s is the build that is asked for and ~ is home.
	Paths []string
	// Args are its arguments; Env are its variables.
	Args func(port int, token, workspace string) []string
	Env  func(token string) []string
}

// usualServers are those that images are known to have.
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

// remoteAccess starts at most one such program, and nothing that is not in the
// machine. Its methods are safe for concurrent use.
type remoteAccess struct {
	servers   []RemoteServer
	workspace string
	environ   []string // of the program
	log       *slog.Logger

	mu      sync.Mutex
	cmd     *exec.Cmd
	ended   chan struct{} // closed when cmd has
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

// find returns the first program that is there.
func (r *remoteAccess) find(build string) (program string, of RemoteServer, err error) {
	home, _ := os.UserHomeDir() // without one nothing is found there
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
			found, _ := filepath.Glob(place) // a pattern of ours is well made
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
	return "", of, missing.Hint("put code-server or openvscode-server on PATH in the environment's image, or a build of the editor's below ~/.cursor-server/bin; " +
		"nothing is fetched from the internet here. ssh needs none of it")
}

func containsVerb(s string) bool {
	for i := range len(s) - 1 {
		if s[i] == '%' && s[i+1] == 's' {
			return true
		}
	}
	return false
}

// warm starts the program, or says where the one that runs listens.
func (r *remoteAccess) warm(ctx context.Context, port int) (program string, at int, token string, already bool, err error) {
	if port < 0 || port > 65535 {
		return "", 0, "", false, fault.Invalid("there is no port %d", port).At("port")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cmd != nil {
		select {
		case <-r.ended:
		default:
			if port != 0 && port != r.port {
				return "", 0, "", false, fault.Conflict("the editor server listens on port %d already", r.port).At("port")
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
		// One that was free may be another's by the time the program listens.
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

// freePorts is how many free ports a program is started at that ends before it listens.
const freePorts = 2

const codeEnded = "remote_server_ended"

// start starts the program and waits until it listens. r.mu must be held.
func (r *remoteAccess) start(ctx context.Context, path string, server RemoteServer, port int) error {
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails
	r.program, r.port, r.token = path, port, hex.EncodeToString(secret[:])
	cmd := exec.Command(path, server.Args(port, r.token, r.workspace)...) //nolint:noctx // it outlives the call
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
	ctx, cancel := context.WithTimeoutCause(ctx, remoteStart, fault.Unavailable("the editor server %s does not listen after %s", r.program, remoteStart))
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
			return fault.Unavailable("the editor server %s ended before it listened", r.program).Named(codeEnded).Hint("start it by hand in a terminal: it says why")
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
		_ = syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL) // it may have ended since
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
