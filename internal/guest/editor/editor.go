// Package editor starts the server through which an editor reaches a machine, if
// the machine's image has one.
package editor

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

// startLimit is how long an editor server may take until it listens.
const startLimit = 30 * time.Second

// A Program is a program through which an editor reaches a machine.
type Program struct {
	// Paths are where the program may be: a name to look for in PATH, or a glob
	// of absolute paths, in which %s is the requested build and ~ is home.
	Paths []string
	// Args are its arguments; Env are its variables.
	Args func(port int, token, workspace string) []string
	Env  func(token string) []string
}

// usualPrograms are the editor servers that images commonly have.
var usualPrograms = []Program{
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

// Server starts at most one editor server. It only starts programs that
// are in the machine already. Its methods are safe for concurrent use.
type Server struct {
	programs  []Program
	workspace string
	environ   []string // environment of the program
	log       *slog.Logger

	mu      sync.Mutex
	cmd     *exec.Cmd
	exited  chan struct{} // closed when cmd has exited
	program string
	port    int
	token   string
}

// New returns a Server that runs one of the programs in the workspace. If
// programs is nil, it uses the programs that images commonly contain.
func New(programs []Program, workspace string, environ []string, log *slog.Logger) *Server {
	if programs == nil {
		programs = usualPrograms
	}
	return &Server{programs: programs, workspace: workspace, environ: environ, log: log}
}

// Find returns the path of the first program that exists, in the given build; "" is
// any build.
func (s *Server) Find(build string) (program string, of Program, err error) {
	home, _ := os.UserHomeDir() // if there is no home folder, nothing is found in it
	for _, server := range s.programs {
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

// Running is a program that listens on a port of loopback.
type Running struct {
	Program string // its path
	Port    int
	Token   string // the token that its users must present
	Already bool   // it was running before the call
}

// Start starts a program, or returns the one that is running. Port 0 is any free
// port. It returns when the program listens.
func (s *Server) Start(ctx context.Context, port int) (Running, error) {
	if port < 0 || port > 65535 {
		return Running{}, fault.Invalid("%d is not a valid port", port).At("port")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != nil {
		select {
		case <-s.exited:
		default:
			if port != 0 && port != s.port {
				return Running{}, fault.Conflict("the editor server already listens on port %d", s.port).At("port")
			}
			return Running{s.program, s.port, s.token, true}, nil
		}
	}
	path, server, err := s.Find("")
	if err != nil {
		return Running{}, err
	}
	if port != 0 {
		err = s.start(ctx, path, server, port)
	} else {
		// Another process may take a free port before the program listens on
		// it.
		for tries := 0; tries == 0 || tries < freePorts && fault.Of(err).Code == codeEnded; tries++ {
			if port, err = freePort(ctx); err == nil {
				err = s.start(ctx, path, server, port)
			}
		}
	}
	if err != nil {
		return Running{}, err
	}
	return Running{s.program, s.port, s.token, false}, nil
}

// freePorts is how many times to start a program that exits before it listens,
// each time on another free port.
const freePorts = 2

const codeEnded = "remote_server_ended"

// start starts the program and waits until it listens. The caller holds s.mu.
func (s *Server) start(ctx context.Context, path string, server Program, port int) error {
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails
	s.program, s.port, s.token = path, port, hex.EncodeToString(secret[:])
	cmd := exec.Command(path, server.Args(port, s.token, s.workspace)...) //nolint:noctx // it outlives the request
	cmd.Dir, cmd.SysProcAttr = s.workspace, &syscall.SysProcAttr{Setsid: true}
	cmd.Env = append([]string(nil), s.environ...)
	if server.Env != nil {
		cmd.Env = append(cmd.Env, server.Env(s.token)...)
	}
	if err := cmd.Start(); err != nil {
		return fault.Unavailable("the editor server %s does not start", path).Because(err)
	}
	ended := make(chan struct{})
	s.cmd, s.exited = cmd, ended
	go func() {
		err := cmd.Wait()
		s.log.Info("the editor server has ended", "program", path, "error", err)
		close(ended)
	}()
	if err := s.listening(ctx); err != nil {
		s.stop()
		return err
	}
	return nil
}

// listening waits until the program listens. The caller holds s.mu.
func (s *Server) listening(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, fault.Unavailable("the editor server %s did not listen within %s", s.program, startLimit))
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var dialer net.Dialer
	for {
		conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)))
		if err == nil {
			return conn.Close()
		}
		select {
		case <-s.exited:
			return fault.Unavailable("the editor server %s ended before it listened", s.program).Named(codeEnded).Hint("start it in a terminal to see why")
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// stop kills the program. The caller holds s.mu.
func (s *Server) stop() {
	if s.cmd == nil {
		return
	}
	select {
	case <-s.exited:
	default:
		_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL) // it may have exited already
		<-s.exited
	}
	s.cmd = nil
}

// Close kills the program.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop()
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
