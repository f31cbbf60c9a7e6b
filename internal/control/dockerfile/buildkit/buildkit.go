// Package buildkit builds Dockerfiles by BuildKit: by a buildkitd that it starts
// itself and that ends with it, or by one that runs elsewhere.
package buildkit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"aloft/internal/control/dockerfile"
)

// Config is what an [Engine] is made of.
type Config struct {
	Buildctl  string // path
	Buildkitd string // path of a daemon to start; or
	Address   string // of one that runs, as BUILDKIT_HOST has it
	Runtime   string // path of the OCI runtime for RUN steps, of a daemon that is started
	Dir       string // for what that daemon keeps
}

// Engine is a [dockerfile.Engine].
type Engine struct {
	conf Config

	mu     sync.Mutex
	daemon *exec.Cmd
	ended  chan struct{}
}

var _ dockerfile.Engine = (*Engine)(nil)

// New returns the engine. A daemon is started by the first build.
func New(conf Config) (*Engine, error) {
	if err := os.MkdirAll(conf.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("buildkit: %w", err)
	}
	return &Engine{conf: conf}, nil
}

// Name implements [dockerfile.Engine].
func (e *Engine) Name() string { return "buildkit" }

// Build implements [dockerfile.Engine].
func (e *Engine) Build(ctx context.Context, job dockerfile.Job, out func(line string)) error {
	if err := e.start(ctx, job.Insecure); err != nil {
		return err
	}
	work := filepath.Dir(job.Dockerfile)
	if job.Ignore == "" {
		// Without one of its own it would take the context's, which may be a link to anywhere.
		if err := os.WriteFile(job.Dockerfile+".dockerignore", nil, 0o600); err != nil {
			return err
		}
	}
	if err := os.Mkdir(job.Output, 0o700); err != nil {
		return err
	}
	args := []string{
		"build", "--progress", "plain", "--frontend", "dockerfile.v0", "--local", "context=" + job.Context,
		"--local", "dockerfile=" + work, "--opt", "filename=" + filepath.Base(job.Dockerfile), "--opt", "force-network-mode=" + job.Network,
		"--output", "type=oci,tar=false,compression=uncompressed,dest=" + job.Output,
	}
	if job.Network == "host" {
		args = append(args, "--allow", "network.host")
	}
	if job.NoCache {
		args = append(args, "--no-cache")
	}
	if job.Target != "" {
		args = append(args, "--opt", "target="+job.Target)
	}
	for _, k := range slices.Sorted(maps.Keys(job.Args)) {
		args = append(args, "--opt", "build-arg:"+k+"="+job.Args[k])
	}
	for id, value := range job.Secrets {
		file := filepath.Join(work, "secret-"+id)
		if err := os.WriteFile(file, []byte(value), 0o600); err != nil {
			return err
		}
		args = append(args, "--secret", "id="+id+",src="+file)
	}
	cmd := e.buildctl(args...)
	cmd.Env = append(cmd.Env, "DOCKER_CONFIG="+filepath.Dir(job.AuthFile))
	f := &dockerfile.Failure{}
	err := dockerfile.Run(ctx, cmd, syscall.SIGTERM, func(line string) {
		see(f, line)
		out(line)
	})
	if _, exited := dockerfile.ExitStatus(err); exited && ctx.Err() == nil && f.Why != "" {
		return f
	}
	return err
}

var (
	placeLine  = regexp.MustCompile(`^Dockerfile:(\d+)$`)
	errorLine  = regexp.MustCompile(`^error: failed to solve: (.*)$`)
	exitStatus = regexp.MustCompile(`^process ".*" did not complete successfully: exit code: (\d+)$`)
	parseLine  = regexp.MustCompile(`^dockerfile parse error on line (\d+): `)
)

// see takes from a line what it says of a failure.
func see(f *dockerfile.Failure, line string) {
	if m := placeLine.FindStringSubmatch(line); m != nil {
		f.Line, _ = strconv.Atoi(m[1]) // digits
	}
	if m := errorLine.FindStringSubmatch(line); m != nil {
		f.Why = m[1]
		if p := parseLine.FindStringSubmatch(f.Why); p != nil {
			f.Line, _ = strconv.Atoi(p[1])
		}
		if s := exitStatus.FindStringSubmatch(f.Why); s != nil {
			f.Why = "exit status " + s[1]
		}
	}
}

// Prune implements [dockerfile.Engine].
func (e *Engine) Prune(ctx context.Context) error {
	if err := e.start(ctx, nil); err != nil {
		return err
	}
	var last string
	if err := dockerfile.Run(ctx, e.buildctl("prune", "--all"), syscall.SIGTERM, func(line string) { last = line }); err != nil {
		return fmt.Errorf("buildctl prune: %w: %s", err, last)
	}
	return nil
}

func (e *Engine) socket() string { return filepath.Join(e.conf.Dir, "buildkitd.sock") }

func (e *Engine) buildctl(args ...string) *exec.Cmd {
	address := e.conf.Address
	if address == "" {
		address = "unix://" + e.socket()
	}
	cmd := exec.Command(e.conf.Buildctl, append([]string{"--addr", address}, args...)...) //nolint:noctx // whoever runs it ends it
	cmd.Env = environ()
	return cmd
}

// environ is nothing of the server's own environment but the way out: it may
// hold secrets.
func environ() []string {
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/nonexistent"}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// startTime is how long a daemon may take until it answers.
const startTime = 30 * time.Second

// start sees that a daemon runs.
func (e *Engine) start(ctx context.Context, insecure []string) error {
	if e.conf.Address != "" {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.daemon != nil {
		select {
		case <-e.ended:
			e.daemon = nil
		default:
			return nil
		}
	}
	var config strings.Builder
	for _, host := range insecure {
		fmt.Fprintf(&config, "[registry.%q]\nhttp = true\ninsecure = true\n", host)
	}
	file := filepath.Join(e.conf.Dir, "buildkitd.toml")
	if err := os.WriteFile(file, []byte(config.String()), 0o600); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(e.conf.Dir, "buildkitd.log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	if err := os.RemoveAll(e.socket()); err != nil {
		return err
	}
	//nolint:noctx // it outlives the build
	cmd := exec.Command(e.conf.Buildkitd, "--config", file, "--addr", "unix://"+e.socket(), "--root", filepath.Join(e.conf.Dir, "root"),
		"--oci-worker=true", "--containerd-worker=false", "--oci-worker-binary", e.conf.Runtime, "--oci-worker-net=host",
		"--allow-insecure-entitlement", "network.host")
	cmd.Stdout, cmd.Stderr, cmd.Env = log, log, environ()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("buildkitd: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // what it says is in its log
		close(ended)
	}()
	e.daemon, e.ended = cmd, ended
	if err := e.answer(ctx, ended); err != nil {
		e.stop()
		return err
	}
	return nil
}

// answer waits until the daemon accepts connections.
func (e *Engine) answer(ctx context.Context, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTime, errors.New("buildkitd does not answer: see "+filepath.Join(e.conf.Dir, "buildkitd.log")))
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if c, err := new(net.Dialer).DialContext(ctx, "unix", e.socket()); err == nil {
			return c.Close()
		}
		select {
		case <-ended:
			return errors.New("buildkitd has ended: see " + filepath.Join(e.conf.Dir, "buildkitd.log"))
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// stop ends the daemon that was started. The lock is held.
func (e *Engine) stop() {
	if e.daemon == nil {
		return
	}
	_ = e.daemon.Process.Signal(syscall.SIGTERM)
	select {
	case <-e.ended:
	case <-time.After(10 * time.Second):
		_ = e.daemon.Process.Kill()
		<-e.ended
	}
	e.daemon = nil
}

// Close implements [dockerfile.Engine].
func (e *Engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stop()
	return nil
}
