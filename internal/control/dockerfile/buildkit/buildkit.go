// Package buildkit builds Dockerfiles by BuildKit: by a buildkitd that it starts
// itself and that ends with it, or by one that runs elsewhere.
package buildkit

import (
	"context"
	"encoding/json"
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
	Buildctl  string           // path
	Buildkitd string           // path of a daemon to start; or
	Address   string           // of one that runs, as BUILDKIT_HOST has it
	Runtime   string           // path of the OCI runtime for RUN steps, of a daemon that is started
	Dir       string           // for what that daemon keeps
	Links     dockerfile.Links // for that daemon; nil where there can be none
}

// Engine is a [dockerfile.Engine].
type Engine struct {
	conf Config

	mu      sync.Mutex
	daemons map[bool]*daemon // by whether it is on a link
	policy  string           // of the link, by which the builds under way are held
	users   int              // builds under way on the link
	free    chan struct{}    // closed and replaced when one of them ends
}

// daemon is one that was started.
type daemon struct {
	cmd   *exec.Cmd
	ended chan struct{}
	link  dockerfile.Link // nil is the server's own network
}

var _ dockerfile.Engine = (*Engine)(nil)

// New returns the engine. A daemon is started by the first build.
func New(conf Config) (*Engine, error) {
	if err := os.MkdirAll(conf.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("buildkit: %w", err)
	}
	return &Engine{conf: conf, daemons: map[bool]*daemon{}, free: make(chan struct{})}, nil
}

// Name implements [dockerfile.Engine].
func (e *Engine) Name() string { return "buildkit" }

// Confines implements [dockerfile.Engine]: the daemon itself lives on a link, with
// all that it fetches and runs.
func (e *Engine) Confines() bool { return e.conf.Links != nil && e.conf.Address == "" }

// Build implements [dockerfile.Engine].
func (e *Engine) Build(ctx context.Context, job dockerfile.Job, out func(line string)) error {
	linked := job.Network != dockerfile.Host && e.Confines()
	if linked {
		leave, err := e.enter(ctx, job)
		if err != nil {
			return err
		}
		defer leave()
	} else if err := e.start(ctx, false, job); err != nil {
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
	mode := "host" // the daemon's, which is the server's or that of a link
	if job.Network == dockerfile.None {
		mode = "none"
	}
	args := []string{
		"build", "--progress", "plain", "--frontend", "dockerfile.v0", "--local", "context=" + job.Context,
		"--local", "dockerfile=" + work, "--opt", "filename=" + filepath.Base(job.Dockerfile), "--opt", "force-network-mode=" + mode,
		"--output", "type=oci,tar=false,compression=uncompressed,dest=" + job.Output,
	}
	if mode == "host" {
		args = append(args, "--allow", "network.host")
	}
	if linked {
		own, err := e.own(ctx, job, out)
		if err != nil {
			return err
		}
		args = append(args, own...)
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
	cmd := e.buildctl(linked, args...)
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

// Keeps implements [dockerfile.Engine].
func (e *Engine) Keeps() []string {
	if e.conf.Address != "" {
		return nil
	}
	return []string{e.conf.Dir}
}

// Prune implements [dockerfile.Engine].
func (e *Engine) Prune(ctx context.Context) error {
	for _, linked := range []bool{false, true} {
		if linked && !e.Confines() {
			continue
		}
		if _, err := os.Stat(e.path(linked, "root")); err != nil && e.conf.Address == "" {
			continue // nothing was ever built there
		}
		if err := e.start(ctx, linked, dockerfile.Job{}); err != nil {
			return err
		}
		var last string
		if err := dockerfile.Run(ctx, e.buildctl(linked, "prune", "--all"), syscall.SIGTERM, func(line string) { last = line }); err != nil {
			return fmt.Errorf("buildctl prune: %w: %s", err, last)
		}
	}
	return nil
}

// path is a file of the daemon that is on a link, or of the one that is not.
func (e *Engine) path(linked bool, name string) string {
	if linked {
		name = "linked-" + name
	}
	return filepath.Join(e.conf.Dir, name)
}

func (e *Engine) buildctl(linked bool, args ...string) *exec.Cmd {
	address := e.conf.Address
	if address == "" {
		address = "unix://" + e.path(linked, "buildkitd.sock")
	}
	cmd := exec.Command(e.conf.Buildctl, append([]string{"--addr", address}, args...)...) //nolint:noctx // whoever runs it ends it
	cmd.Env = environ(linked)
	return cmd
}

// environ is nothing of the server's own environment but the way out: it may
// hold secrets. The server's proxies are not a machine's.
func environ(linked bool) []string {
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/nonexistent"}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR"} {
		if v, ok := os.LookupEnv(name); ok && (!linked || strings.HasPrefix(name, "SSL")) {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// startTime is how long a daemon may take until it answers.
const startTime = 30 * time.Second

// enter has the link's policy be that of a job, once the builds under another
// have ended, and sees that the daemon on it runs. The policy stays until leave.
func (e *Engine) enter(ctx context.Context, job dockerfile.Job) (leave func(), err error) {
	if job.Network == dockerfile.None {
		job.Policy.Mode, job.Policy.Narrower = "none", nil
	}
	data, err := json.Marshal(job.Policy)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.users > 0 && e.policy != string(data) {
		free := e.free
		e.mu.Unlock()
		select {
		case <-free:
		case <-ctx.Done():
		}
		e.mu.Lock()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	if err := e.startLocked(ctx, true, job); err != nil {
		return nil, err
	}
	if e.policy != string(data) {
		if err := e.daemons[true].link.SetPolicy(ctx, job.Policy); err != nil {
			return nil, err
		}
		e.policy = string(data)
	}
	e.users++
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.users--
		close(e.free)
		e.free = make(chan struct{})
	}, nil
}

// own has the daemon take the images of the operator's registries from here: it
// may not reach them.
func (e *Engine) own(ctx context.Context, job dockerfile.Job, out func(string)) (args []string, err error) {
	for i, ref := range job.Bases {
		if job.Own == nil {
			break
		}
		dir, digest, err := job.Own(ctx, ref)
		if err != nil && ctx.Err() == nil {
			out(err.Error())
			return nil, &dockerfile.Failure{Step: "FROM " + ref, Why: err.Error()}
		}
		if err != nil {
			return nil, err
		}
		if dir == "" {
			continue
		}
		name := fmt.Sprintf("base%d", i)
		args = append(args, "--oci-layout", name+"="+dir, "--opt", "context:"+ref+"=oci-layout://"+name+"@"+digest)
	}
	return args, nil
}

// start sees that a daemon runs.
func (e *Engine) start(ctx context.Context, linked bool, job dockerfile.Job) error {
	if e.conf.Address != "" {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.startLocked(ctx, linked, job)
}

func (e *Engine) startLocked(ctx context.Context, linked bool, job dockerfile.Job) error {
	if d := e.daemons[linked]; d != nil {
		select {
		case <-d.ended:
			e.stop(linked)
		default:
			return nil
		}
	}
	var config strings.Builder
	for _, host := range job.Insecure {
		fmt.Fprintf(&config, "[registry.%q]\nhttp = true\ninsecure = true\n", host)
	}
	file, socket := e.path(linked, "buildkitd.toml"), e.path(linked, "buildkitd.sock")
	if err := os.WriteFile(file, []byte(config.String()), 0o600); err != nil {
		return err
	}
	log, err := os.Create(e.path(linked, "buildkitd.log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	if err := os.RemoveAll(socket); err != nil {
		return err
	}
	d := &daemon{ended: make(chan struct{})}
	var argv []string
	if linked {
		if argv, err = e.linkUp(ctx, d, job); err != nil {
			return err
		}
	}
	argv = append(argv, e.conf.Buildkitd, "--config", file, "--addr", "unix://"+socket, "--root", e.path(linked, "root"),
		"--oci-worker=true", "--containerd-worker=false", "--oci-worker-binary", e.conf.Runtime, "--oci-worker-net=host",
		"--allow-insecure-entitlement", "network.host")
	d.cmd = exec.Command(argv[0], argv[1:]...) //nolint:noctx // it outlives the build
	d.cmd.Stdout, d.cmd.Stderr, d.cmd.Env = log, log, environ(linked)
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := d.cmd.Start(); err != nil {
		return errors.Join(fmt.Errorf("buildkitd: %w", err), d.unlink())
	}
	go func() {
		_ = d.cmd.Wait() // what it says is in its log
		close(d.ended)
	}()
	e.daemons[linked] = d
	if err := e.answer(ctx, socket, log.Name(), d.ended); err != nil {
		e.stop(linked)
		return err
	}
	return nil
}

// linkUp makes the link of a daemon, and returns the command that enters it.
func (e *Engine) linkUp(ctx context.Context, d *daemon, job dockerfile.Job) (enter []string, err error) {
	dir := e.path(true, "link") // of one that was killed, whose gateway ends with it
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil {
		return nil, err
	}
	if d.link, err = e.conf.Links(ctx, dir, job.Policy); err != nil {
		return nil, err
	}
	data, err := json.Marshal(job.Policy)
	if err == nil {
		e.policy = string(data)
		enter, err = dockerfile.ResolvConf(d.link, e.path(true, "resolv.conf"))
	}
	if err != nil {
		return nil, errors.Join(err, d.unlink())
	}
	return enter, nil
}

// answer waits until the daemon accepts connections.
func (e *Engine) answer(ctx context.Context, socket, log string, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTime, errors.New("buildkitd does not answer: see "+log))
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if c, err := new(net.Dialer).DialContext(ctx, "unix", socket); err == nil {
			return c.Close()
		}
		select {
		case <-ended:
			return errors.New("buildkitd has ended: see " + log)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// stop ends a daemon that was started, and its link. The lock is held.
func (e *Engine) stop(linked bool) {
	d := e.daemons[linked]
	if d == nil {
		return
	}
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-d.ended:
	case <-time.After(10 * time.Second):
		_ = d.cmd.Process.Kill()
		<-d.ended
	}
	_ = d.unlink()
	delete(e.daemons, linked)
}

func (d *daemon) unlink() error {
	if d.link == nil {
		return nil
	}
	return d.link.Close()
}

// Close implements [dockerfile.Engine].
func (e *Engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stop(false)
	e.stop(true)
	return nil
}
