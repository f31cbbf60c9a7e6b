package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"aloft/internal/control/confine"
	"aloft/internal/control/repourl"
	"aloft/internal/gitcmd"
)

const (
	maxStderr   = 64 << 10
	maxStdout   = 256 << 20
	stallProbe  = 2 * time.Second // after git has been silent for this long, check whether the host is reachable at all
	dialTimeout = 3 * time.Second
	fetchLimit  = 30 * time.Minute
	gitLimit    = 2 * time.Hour   // timeout of any command, such as serving a clone over a slow connection
	stopGrace   = 3 * time.Second // time for git to remove its lock files
	firstFile   = 3               // the descriptor of the first inherited file
)

// passed lists the environment variables that git inherits in addition to PATH:
// network settings, certificate authorities and the ssh agent. All others are
// dropped.
var passed = []string{
	"TZ", "TMPDIR", "SSH_AUTH_SOCK", "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "CURL_CA_BUNDLE",
	"http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
}

// settings apply to every git command on a mirror, in addition to those of
// package gitcmd.
var settings = [][2]string{
	{"core.bigFileThreshold", "32m"}, // larger blobs are streamed instead of held in memory
	{"core.logAllRefUpdates", "false"},
	{"init.defaultBranch", "main"},
	{"safe.directory", "*"}, // mirrors are trusted, even if their owner changed by restoring a backup
	{"protocol.version", "2"},
	{"http.followRedirects", "false"}, // see [Mirror.follow]; also disables the alternates of a dumb HTTP server
	{"transfer.bundleURI", "false"},
	{"http.lowSpeedLimit", "500"},
	{"http.lowSpeedTime", "30"},
	{"fetch.unpackLimit", "1"}, // keep packs instead of unpacking them into many files
	{"transfer.hideRefs", "refs/aloft"},
	{"uploadpack.allowFilter", "true"},
	{"uploadpackfilter.sparse:oid.allow", "false"}, // such a filter could reveal the content of any object in the mirror
	// In protocol 2, git lets clients request any object. So callers check the
	// requested objects with [Mirror.Unserved].
	{"uploadpack.allowAnySHA1InWant", "true"},
	{"advice.fetchShowForcedUpdates", "false"},
}

const sshCommand = "ssh -o BatchMode=yes -o ConnectTimeout=5 -o ServerAliveInterval=10 -o ServerAliveCountMax=3"

// invocation is one git command.
type invocation struct {
	args   []string
	dir    string // value of GIT_DIR
	env    []string
	config [][2]string
	// objects is a folder with the objects of a push, which git uses in
	// addition to those of the mirror. "" means none.
	objects string
	changes bool // git writes to dir
	fills   bool // git writes to objects
	stdin   io.Reader
	stdout  io.Writer // if nil, stdout is collected and returned
	// dataLimit is the maximum memory that git can allocate, in bytes.
	dataLimit uint64
	fileLimit uint64 // maximum size of each file that git writes, in bytes
	patient   bool   // runs at low priority

	// Further resources of a confined command; see [confine.Jail].
	user    int // 0 means a user who owns nothing
	network bool
	write   []string

	files []*os.File // inherited by git as descriptors 3 and up; closed after the start
	trace *os.File   // gets git's trace of packets; closed after the start
}

// gitError is the error of a failed git command.
type gitError struct {
	args   []string
	stderr string
	err    error
}

func (e *gitError) Error() string {
	s := "git " + e.args[0] + ": " + e.err.Error()
	if line := lastLine(e.stderr); line != "" {
		s += ": " + line
	}
	return s
}

func (e *gitError) Unwrap() error { return e.err }

// git runs a command to completion. When ctx ends, git and all its children are
// stopped. stderr is returned even on error.
func (s *Mirrors) git(ctx context.Context, inv invocation) (stdout []byte, stderr string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, gitLimit, errTooSlow)
	defer cancel()
	if inv.trace != nil {
		inv.files = append(slices.Clone(inv.files), inv.trace)
		inv.env = append(slices.Clone(inv.env), fmt.Sprintf("GIT_TRACE_PACKET=%d", firstFile+len(inv.files)-1))
	}
	cmd := s.command(ctx, inv)
	cmd.Stdin = inv.stdin
	errs := &headBuffer{max: maxStderr}
	cmd.Stderr = errs
	var out bytes.Buffer
	if inv.stdout != nil {
		cmd.Stdout = inv.stdout
	} else {
		cmd.Stdout = &limitWriter{w: &out, left: maxStdout}
	}
	cmd.ExtraFiles = inv.files
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = stopGrace
	err = s.host.Run(ctx, confine.Command{
		Cmd: cmd, Jail: s.jail(inv), Low: inv.patient,
		Started: func() {
			for _, f := range inv.files {
				_ = f.Close() // git has its own copy
			}
		},
		Stop: func() unix.Signal {
			_, refused := errors.AsType[tooManyRefs](context.Cause(ctx))
			// Kill git at once, instead of with SIGTERM, in two cases. A
			// confined command may ignore SIGTERM, and needs no cleanup if it
			// changes nothing. After too many refs, git must not write the
			// refused refs.
			if refused || s.confined && !inv.changes && !inv.fills {
				return unix.SIGKILL
			}
			return unix.SIGTERM
		},
	})
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		err = &gitError{inv.args, errs.String(), err}
	}
	return out.Bytes(), errs.String(), err
}

// command returns the command of an invocation, not yet started.
func (s *Mirrors) command(ctx context.Context, inv invocation) *exec.Cmd {
	g := gitcmd.Git{Program: s.gitPath, Path: s.path, Home: s.home, Config: slices.Concat(settings, inv.config)}
	g.Env = slices.Clone(s.baseEnv)
	if inv.dir != "" {
		g.Env = append(g.Env, "GIT_DIR="+inv.dir)
	}
	if inv.objects != "" {
		g.Env = append(g.Env, "GIT_OBJECT_DIRECTORY="+inv.objects, "GIT_ALTERNATE_OBJECT_DIRECTORIES="+filepath.Join(inv.dir, "objects"))
	}
	g.Env = append(g.Env, inv.env...)
	if s.confined {
		g.Home = ""
	}
	cmd := g.Command(ctx, inv.args...)
	cmd.Dir = "/"
	return cmd
}

// baseEnviron returns the environment shared by all commands on mirrors, and
// the PATH.
func baseEnviron(ours []string) (env []string, path string) {
	env = []string{
		"GIT_TEMPLATE_DIR=",
	}
	path = "/usr/local/bin:/usr/bin:/bin"
	for _, kv := range ours {
		name, value, _ := strings.Cut(kv, "=")
		switch {
		case name == "PATH":
			path = value
		case slices.Contains(passed, name):
			env = append(env, kv)
		}
	}
	return env, path
}

// upstream runs a git command that talks to the repository's own server. It
// turns a failure into a fault, whose code the run reports.
func (m *Mirror) upstream(ctx context.Context, r repourl.Repo, inv invocation) (stdout []byte, stderr string, err error) {
	if r.Scheme() == "file" {
		return m.onThisHost(ctx, r, inv)
	}
	if r.Scheme() == "ssh" {
		return m.overSSH(ctx, r, inv)
	}
	run := func(at repourl.Repo) (stdout []byte, stderr string, err error) {
		moved := inv
		moved.args = slices.Clone(inv.args)
		if i := slices.Index(moved.args, r.String()); i >= 0 {
			moved.args[i] = at.String()
		}
		return m.runOnce(ctx, at, moved)
	}
	at := m.movedTo(r)
	stdout, stderr, err = run(at)
	if err == nil {
		return stdout, stderr, nil
	}
	if !isRedirect(stderr) {
		m.setMoved(r, r)
		return stdout, stderr, err
	}
	if at, err = m.follow(ctx, at); err != nil {
		return nil, "", err
	}
	if stdout, stderr, err = run(at); err == nil {
		m.setMoved(r, at)
	}
	return stdout, stderr, err
}

// runOnce runs a git command against the server at r. It follows no redirect.
func (m *Mirror) runOnce(ctx context.Context, r repourl.Repo, inv invocation) (stdout []byte, stderr string, err error) {
	to, err := m.all.route(ctx, r)
	if err != nil {
		return nil, "", err
	}
	cred, err := m.all.credentialFor(r).withCurrentToken(ctx, r)
	if err != nil {
		return nil, "", noToken(r, err)
	}
	config, env := cred.environ()
	inv.network = true
	inv.config = slices.Concat(config, to.config, inv.config)
	inv.env = slices.Concat(inv.env, env)
	inv.env = append(inv.env, "GIT_ALLOW_PROTOCOL="+allowedProtocols(r.Scheme()))
	ctx, cancel := context.WithTimeoutCause(ctx, fetchLimit, errTooSlow)
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if !m.all.proxied {
		probe := time.AfterFunc(stallProbe, func() {
			conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", to.dial)
			if err != nil {
				stop(fmt.Errorf("%w: %w", errNoConnection, err))
				return
			}
			_ = conn.Close()
		})
		defer probe.Stop()
	}
	stdout, stderr, err = m.counted(ctx, inv)
	stderr = cred.redact(stderr)
	if e, ok := errors.AsType[*gitError](err); ok {
		e.stderr = stderr // errors are logged
	}
	if err != nil {
		err = classify(r, cred, stderr, err)
	}
	return stdout, stderr, err
}

// allowedProtocols returns the protocols that git may be redirected to. It
// includes no protocol that is less secure than scheme.
func allowedProtocols(scheme string) string {
	if scheme == "http" {
		return "http:https"
	}
	return scheme
}

// headBuffer keeps the first max bytes written to it and drops the rest.
type headBuffer struct {
	kept bytes.Buffer // not embedded: its ReadFrom would ignore max
	max  int
}

// Bytes returns what was kept.
func (b *headBuffer) Bytes() []byte { return b.kept.Bytes() }

// Len returns how many bytes were kept.
func (b *headBuffer) Len() int { return b.kept.Len() }

// String returns what was kept as text.
func (b *headBuffer) String() string { return b.kept.String() }

func (b *headBuffer) Write(p []byte) (int, error) {
	b.kept.Write(p[:min(len(p), max(0, b.max-b.Len()))])
	return len(p), nil
}

// limitWriter fails when more than its limit is written.
type limitWriter struct {
	w      io.Writer
	left   int64
	partly bool // write the part that still fits
}

var errTooMuch = errors.New("more output than is allowed")

func (w *limitWriter) Write(p []byte) (int, error) {
	if int64(len(p)) > w.left {
		n := 0
		if w.partly {
			n, _ = w.w.Write(p[:w.left])
			w.left = 0
		}
		return n, errTooMuch
	}
	w.left -= int64(len(p))
	return w.w.Write(p)
}
