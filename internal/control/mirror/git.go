package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	maxStderr   = 64 << 10
	maxStdout   = 256 << 20
	stallProbe  = 2 * time.Second // git is silent so long: look whether the host can be reached at all
	dialTimeout = 3 * time.Second
	fetchLimit  = 30 * time.Minute
	stopGrace   = 3 * time.Second // for git to remove its lock files
)

// passed are the variables of our own environment that git gets: where
// programs are, how to reach the network, which authorities to trust, and the
// ssh agent. Everything else stays outside.
var passed = []string{
	"PATH", "TZ", "TMPDIR", "SSH_AUTH_SOCK", "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "CURL_CA_BUNDLE",
	"http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
}

// settings hold for every git command, over whatever a file says.
var settings = [][2]string{
	{"core.hooksPath", "/dev/null"},
	{"core.fsmonitor", "false"},
	{"core.bigFileThreshold", "32m"}, // larger blobs are streamed, not held in memory
	{"core.logAllRefUpdates", "false"},
	{"gc.auto", "0"},
	{"maintenance.auto", "false"},
	{"credential.helper", ""},
	{"protocol.version", "2"},
	{"http.followRedirects", "initial"},
	{"http.lowSpeedLimit", "500"},
	{"http.lowSpeedTime", "30"},
	{"fetch.unpackLimit", "1"}, // packs, which cost one file
	{"transfer.hideRefs", "refs/aloft"},
	{"uploadpack.allowFilter", "true"},
	// Between the list of refs and the request the mirror may be refreshed; also
	// a commit may be the starting point of an agent. Protocol 2 asks the same.
	{"uploadpack.allowAnySHA1InWant", "true"},
	{"advice.fetchShowForcedUpdates", "false"},
}

// invocation is one git command.
type invocation struct {
	args   []string
	dir    string // GIT_DIR
	env    []string
	config [][2]string
	stdin  io.Reader
	stdout io.Writer // collected and returned if nil
	// dataLimit bounds the memory that git allocates, in bytes.
	dataLimit uint64
	patient   bool // it yields the processor to what somebody waits for
}

// gitError is a git command that ended badly.
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

// git runs a command to its end. When ctx ends git is told to stop, with all
// that it started. stderr is returned in both cases.
func (s *Mirrors) git(ctx context.Context, inv invocation) (stdout []byte, stderr string, err error) {
	cmd := exec.CommandContext(ctx, s.gitPath, inv.args...)
	cmd.Dir = s.home
	cmd.Env = s.environ(inv)
	cmd.Stdin = inv.stdin
	errs := &headBuffer{max: maxStderr}
	cmd.Stderr = errs
	var out bytes.Buffer
	if inv.stdout != nil {
		cmd.Stdout = inv.stdout
	} else {
		cmd.Stdout = &limitWriter{w: &out, left: maxStdout}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = stopGrace
	if err = cmd.Start(); err == nil {
		if inv.dataLimit > 0 {
			limitData(cmd.Process.Pid, inv.dataLimit)
		}
		if inv.patient {
			yield(cmd.Process.Pid)
		}
		err = cmd.Wait()
		if ctx.Err() != nil {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // whoever did not heed
		}
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		err = &gitError{inv.args, errs.String(), err}
	}
	return out.Bytes(), errs.String(), err
}

func (s *Mirrors) environ(inv invocation) []string {
	env := slices.Clone(s.baseEnv)
	if inv.dir != "" {
		env = append(env, "GIT_DIR="+inv.dir)
	}
	config := slices.Concat(settings, inv.config)
	env = append(env, "GIT_CONFIG_COUNT="+strconv.Itoa(len(config)))
	for i, kv := range config {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, kv[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, kv[1]))
	}
	return append(env, inv.env...)
}

// baseEnviron is the part of the environment that all commands share.
func baseEnviron(home, config string, ours []string) []string {
	env := []string{
		"LC_ALL=C", "HOME=" + home, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + config,
		"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=", "SSH_ASKPASS=", "GIT_SSH_VARIANT=ssh",
		"GIT_SSH_COMMAND=ssh -o BatchMode=yes -o ConnectTimeout=5 -o ServerAliveInterval=10 -o ServerAliveCountMax=3",
		"GIT_OPTIONAL_LOCKS=0", "GIT_ATTR_NOSYSTEM=1", "GIT_NO_REPLACE_OBJECTS=1",
	}
	for _, kv := range ours {
		name, _, _ := strings.Cut(kv, "=")
		if slices.Contains(passed, name) {
			env = append(env, kv)
		}
	}
	if !slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "PATH=") }) {
		env = append(env, "PATH=/usr/local/bin:/usr/bin:/bin")
	}
	return env
}

// upstream runs a git command that talks to the repository's own server, and
// makes its failure a fault with a code that a run can end with.
func (m *Mirror) upstream(ctx context.Context, r Repo, inv invocation) (stdout []byte, stderr string, err error) {
	cred, err := m.all.credentialFor(r).now(ctx, r)
	if err != nil {
		return nil, "", noToken(r, err)
	}
	config, env := cred.environ()
	inv.dir = m.dir
	inv.config = append(config, inv.config...)
	inv.env = append(inv.env, env...)
	inv.env = append(inv.env, "GIT_ALLOW_PROTOCOL="+allowedProtocols(r.scheme))
	ctx, cancel := context.WithTimeoutCause(ctx, fetchLimit, errTooSlow)
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if r.scheme != "file" && !m.all.proxied {
		probe := time.AfterFunc(stallProbe, func() {
			conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", r.dialAddress())
			if err != nil {
				stop(fmt.Errorf("%w: %w", errNoConnection, err))
				return
			}
			_ = conn.Close()
		})
		defer probe.Stop()
	}
	stdout, stderr, err = m.all.git(ctx, inv)
	stderr = cred.redact(stderr)
	if e, ok := errors.AsType[*gitError](err); ok {
		e.stderr = stderr // errors are logged
	}
	if err != nil {
		err = classify(r, cred, stderr, err)
	}
	return stdout, stderr, err
}

// allowedProtocols keeps a redirect from leading to a weaker protocol.
func allowedProtocols(scheme string) string {
	if scheme == "http" {
		return "http:https"
	}
	return scheme
}

// headBuffer keeps the first bytes written to it and drops the rest.
type headBuffer struct {
	bytes.Buffer
	max int
}

func (b *headBuffer) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), max(0, b.max-b.Len()))])
	return len(p), nil
}

// limitWriter fails when more is written than it lets through.
type limitWriter struct {
	w      io.Writer
	left   int64
	partly bool // write what still fits
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
