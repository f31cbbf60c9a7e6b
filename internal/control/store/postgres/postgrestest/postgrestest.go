// Package postgrestest runs PostgreSQL servers for tests, each with its own
// data and socket, as an unprivileged user.
package postgrestest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"aloft/internal/need"
)

// Server is a PostgreSQL server. Except for Database, its methods must be
// called from one goroutine.
type Server struct {
	Dir     string // contains the socket
	bin     string
	durable bool
	owner   *syscall.Credential // nil means the user who runs the test
	process *exec.Cmd
	made    atomic.Int64 // number of databases created
}

// Start starts a server that is removed after the test. If durable is true, it
// flushes acknowledged writes to disk, which is slower.
func Start(t testing.TB, durable bool) *Server {
	t.Helper()
	bin, err := find()
	if err != nil {
		need.Missing(t, "postgresql", err)
	}
	s, err := start(context.WithoutCancel(t.Context()), bin, durable)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.remove)
	return s
}

var shared struct {
	mu     sync.Mutex
	server *Server
	err    error
}

// Shared returns a server that all tests of the test binary share. TestMain
// must call [Stop]. The server is not durable.
func Shared(t testing.TB) *Server {
	t.Helper()
	bin, err := find()
	if err != nil {
		need.Missing(t, "postgresql", err)
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server == nil && shared.err == nil {
		shared.server, shared.err = start(context.WithoutCancel(t.Context()), bin, false)
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.server
}

// Stop stops the shared server, if there is one.
func Stop() {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server != nil {
		shared.server.remove()
	}
}

// find returns the folder of PostgreSQL's programs, which Debian keeps out of
// the PATH.
func find() (string, error) {
	if path, err := exec.LookPath("postgres"); err == nil {
		path, err = filepath.EvalSymlinks(path)
		return filepath.Dir(path), err
	}
	all, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(all) == 0 {
		return "", errors.Join(err, errors.New("there is no postgres in the path or below /usr/lib/postgresql"))
	}
	return filepath.Dir(all[len(all)-1]), nil
}

func start(ctx context.Context, bin string, durable bool) (_ *Server, err error) {
	dir, err := os.MkdirTemp("", "aloft-postgres-") // short, because socket paths have a length limit
	if err != nil {
		return nil, err
	}
	s := &Server{Dir: dir, bin: bin, durable: durable}
	defer func() {
		if err != nil {
			s.remove()
		}
	}()
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // servers of other users connect to the socket
		return nil, err
	}
	if os.Geteuid() == 0 { // PostgreSQL refuses to run as root
		if s.owner, err = nobody(); err != nil {
			return nil, err
		}
		if err := os.Chown(dir, int(s.owner.Uid), int(s.owner.Gid)); err != nil {
			return nil, err
		}
	}
	made := s.command(ctx, "initdb", "--no-sync", "--auth=trust", "--username=aloft", "--encoding=UTF8", "--locale=C.UTF-8", "--pgdata="+s.data())
	if out, err := made.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return s, s.Start(ctx)
}

func nobody() (*syscall.Credential, error) {
	u, err := user.Lookup("nobody")
	if err != nil {
		return nil, err
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(err1, err2)
}

func (s *Server) data() string { return filepath.Join(s.Dir, "data") }

func (s *Server) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, name), args...)
	cmd.Dir = s.Dir
	cmd.Env = []string{"LC_ALL=C.UTF-8", "LC_MESSAGES=C", "PATH=/usr/bin:/bin", "TZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.owner}
	return cmd
}

// Start restarts the server after [Server.Kill] or [Server.Halt], and returns
// when it accepts connections.
func (s *Server) Start(ctx context.Context) error {
	args := []string{"-D", s.data(), "-k", s.Dir, "-c", "listen_addresses=", "-c", "max_connections=300", "-c", "shared_buffers=32MB", "-c", "log_min_messages=log"}
	if !s.durable {
		args = append(args, "-c", "fsync=off", "-c", "full_page_writes=off")
	}
	for try := 0; ; try++ {
		cmd := s.command(context.WithoutCancel(ctx), "postgres", args...)
		said, err := cmd.StderrPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		var log strings.Builder
		ready := bufio.NewScanner(said)
		for ready.Scan() {
			log.WriteString(ready.Text() + "\n")
			if strings.Contains(ready.Text(), "database system is ready to accept connections") {
				go func() { _, _ = io.Copy(io.Discard, said) }()
				s.process = cmd
				return nil
			}
		}
		err = cmd.Wait()
		// The processes of a killed server take a moment to exit.
		if try > 1000 || !strings.Contains(log.String(), "in use") && !strings.Contains(log.String(), "Is another postmaster") {
			return fmt.Errorf("postgres: %w\n%s", err, log.String())
		}
	}
}

// Kill kills the server and all its processes with SIGKILL.
func (s *Server) Kill() {
	pid := s.process.Process.Pid
	_ = s.process.Process.Signal(syscall.SIGSTOP) // keep it from starting more processes
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for child := range strings.FieldsSeq(string(children)) {
		if n, err := strconv.Atoi(child); err == nil {
			_ = syscall.Kill(n, syscall.SIGKILL)
		}
	}
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
	s.process = nil
}

// Halt stops the server without waiting for its clients, as an operator would.
func (s *Server) Halt() {
	_ = s.process.Process.Signal(syscall.SIGINT)
	_ = s.process.Wait()
	s.process = nil
}

func (s *Server) remove() {
	if s.process != nil {
		s.Kill()
	}
	_ = os.RemoveAll(s.Dir)
}

// Patience contains connection settings without timeouts, for a busy host.
const Patience = "connect_timeout=300&statement_timeout=0&lock_timeout=0"

// URL returns the address of a database, with [Patience].
func (s *Server) URL(database string) string {
	return fmt.Sprintf("postgres://aloft@/%s?host=%s&%s", database, s.Dir, Patience)
}

// Database creates a copy of the template database, or an empty database if
// template is "", and returns its address.
func (s *Server) Database(t testing.TB, template string) string {
	t.Helper()
	name := fmt.Sprintf("test%d", s.made.Add(1))
	if template == "" {
		template = "template0"
	}
	s.Exec(t, "postgres", "CREATE DATABASE "+name+" TEMPLATE "+template+" STRATEGY FILE_COPY")
	return s.URL(name)
}

// Schema creates an empty schema in a shared database, and returns its address.
// That is ten times as fast as creating a database.
func (s *Server) Schema(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test%d", s.made.Add(1))
	s.Exec(t, "postgres", "CREATE SCHEMA "+name)
	return s.URL("postgres") + "&search_path=" + name
}

// Exec executes an SQL command.
func (s *Server) Exec(t testing.TB, database, command string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	c, err := pgx.Connect(ctx, s.URL(database))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(ctx) }()
	if _, err := c.Exec(ctx, command); err != nil {
		t.Fatalf("%s: %v", command, err)
	}
}
