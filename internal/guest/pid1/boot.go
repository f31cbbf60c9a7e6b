package pid1

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"connectrpc.com/connect"

	"aloft/internal/guest/checkout"
	"aloft/internal/guest/process"
	"aloft/internal/wire/mux"
	"aloft/internal/wire/podv1"
)

// execStart is the timeout for exec-daemon to listen. If exec-daemon exits earlier, that
// is reported at once; the timeout is for an exec-daemon that hangs, even on a busy
// host.
const execStart = time.Minute

// maxExecBackoff is the longest pause before a restart of exec-daemon. It is
// short, because the agent waits for exec-daemon and a start takes only some 10
// ms.
const maxExecBackoff = 200 * time.Millisecond

// maxStepDetail limits a step's detail, in bytes.
const maxStepDetail = 4 << 10

// boot is the state of one Boot call.
type boot struct {
	d     *Daemon
	req   *podv1.BootRequest
	state []checkout.State // of each repository
	notes []string
	tmux  *process.Service // nil unless this boot started it
}

// step is one step of the boot. It is idempotent, reports progress, and returns
// a final detail message.
type step struct {
	name string
	do   func(b *boot, ctx context.Context, progress func(string)) (detail string, err error)
}

// steps are the steps of every boot, in order.
var steps = []step{
	{"user", (*boot).chooseUser},
	{"network", (*boot).network},
	{"checkout", (*boot).checkout},
	{"terminals", (*boot).terminals},
	{"exec-daemon", (*boot).execDaemon},
}

// Boot implements pod.v1's PodService.
func (s *podServer) Boot(ctx context.Context, req *connect.Request[podv1.BootRequest], stream *connect.ServerStream[podv1.BootResponse]) error {
	if err := checkBoot(req.Msg); err != nil {
		return connect.NewError(connect.CodeInvalidArgument, err)
	}
	giveBack, err := s.d.take(ctx)
	if err != nil {
		return err
	}
	defer giveBack()
	b := &boot{d: s.d, req: req.Msg}
	s.d.mu.Lock()
	s.d.env = req.Msg.GetEnv()
	s.d.mu.Unlock()
	var facilities *podv1.Facilities
	var asking sync.WaitGroup
	defer asking.Wait()
	for _, step := range steps {
		if step.name == "network" { // the network step comes after the user is known
			asking.Go(func() { facilities = s.d.facilities(ctx) })
		}
		ok, err := b.run(ctx, step, func(news *podv1.BootStep) error {
			return stream.Send(&podv1.BootResponse{Event: &podv1.BootResponse_Step{Step: news}})
		})
		if !ok || err != nil {
			return err
		}
	}
	s.d.mu.Lock()
	s.d.booted = true
	s.d.mu.Unlock()
	asking.Wait()
	ready := b.ready()
	ready.Facilities = facilities
	return stream.Send(&podv1.BootResponse{Event: &podv1.BootResponse_Ready{Ready: ready}})
}

// run runs one step and reports it. ok is false if the step failed. err is an error of
// reporting, or says that the caller disconnected.
func (b *boot) run(ctx context.Context, step step, tell func(*podv1.BootStep) error) (ok bool, err error) {
	begun := time.Now()
	news := func(state podv1.BootStep_State, detail, code string) error {
		if len(detail) > maxStepDetail {
			detail = detail[:maxStepDetail]
		}
		return tell(&podv1.BootStep{
			Name: step.name, State: state, DurationMs: time.Since(begun).Milliseconds(),
			Detail: strings.ToValidUTF8(detail, ""), Code: code,
		})
	}
	if err := news(podv1.BootStep_STATE_RUNNING, "", ""); err != nil {
		return false, err
	}
	// Ignore the error of a progress report: the next report returns it too.
	detail, err := step.do(b, ctx, func(s string) { _ = news(podv1.BootStep_STATE_RUNNING, s, "") })
	log := b.d.cfg.Log.With("step", step.name, "took", time.Since(begun).Round(time.Millisecond))
	switch {
	case err == nil:
		log.Info("boot step done", "detail", detail)
		return true, news(podv1.BootStep_STATE_DONE, detail, "")
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	}
	code, words := checkout.CodeInternal, err.Error()
	if f, is := errors.AsType[*checkout.Failure](err); is {
		code, words = f.Code, f.Detail
	} else if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		code = checkout.CodeDiskFull
	}
	log.Warn("boot step failed", "code", code, "err", words)
	return false, news(podv1.BootStep_STATE_FAILED, words, code)
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func checkBoot(r *podv1.BootRequest) error {
	if b, err := hex.DecodeString(r.GetExecToken()); err != nil || len(b) != 32 {
		return errors.New("exec_token: must be 64 hex digits")
	}
	for name, value := range r.GetEnv() {
		if !variable.MatchString(name) || strings.ContainsRune(value, 0) {
			return fmt.Errorf("env: %q is not a valid variable name", name)
		}
	}
	return checkCheckouts(r)
}

// network brings up loopback. On the first boot it also listens on git's port and on the
// display. Boots never run concurrently.
func (b *boot) network(ctx context.Context, _ func(string)) (string, error) {
	raised, err := raiseLoopback()
	if err != nil {
		return "", err
	}
	detail := "loopback was up"
	if raised {
		detail = "brought loopback up"
	}
	b.d.mu.Lock()
	begun := b.d.git != nil
	b.d.mu.Unlock()
	if !begun {
		if err := b.d.serveDisplay(); err != nil {
			detail += "; no desktop: " + err.Error() // a machine works without a desktop
		}
	}
	b.d.mu.Lock()
	defer b.d.mu.Unlock()
	if !begun {
		if b.d.git, err = b.d.listenOut(ctx, b.d.cfg.GitAddr, mux.Git); err != nil {
			return "", fmt.Errorf("git's port: %w", err)
		}
		if taken := b.d.servePorts(ctx); taken != "" {
			detail += "; " + taken
		}
	}
	if err := b.d.setRegistries(ctx, b.req.GetRegistries()); err != nil {
		detail += "; Docker does not pull through the server: " + err.Error() // a machine works without
	}
	// A machine works without these two.
	if b.req.GetTrace() && b.d.spans == nil {
		if b.d.spans, err = b.d.listenOut(ctx, b.d.cfg.TraceAddr, mux.Telemetry); err != nil {
			detail += "; no traces: " + err.Error()
		}
	}
	if b.req.GetEmbeddingModel() != "" && b.d.embed == nil {
		if b.d.embed, err = b.d.listenOut(ctx, b.d.cfg.EmbedAddr, mux.Embeddings); err != nil {
			detail += "; no embeddings: " + err.Error()
		}
	}
	return detail, nil
}

// listenOut listens on an address and forwards its connections to the control
// plane, as streams with the given name.
func (d *Daemon) listenOut(ctx context.Context, addr, name string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	go d.serveOut(l, name)
	return l, nil
}

// execDaemon starts exec-daemon. If exec-daemon is already running, it keeps running
// with the caller's token. If it does not accept that token, it is restarted, because
// otherwise the caller could not use it.
func (b *boot) execDaemon(ctx context.Context, _ func(string)) (string, error) {
	d, token := b.d, b.req.GetExecToken()
	d.mu.Lock()
	old, known := d.exec, d.token
	d.mu.Unlock()
	detail := "started"
	if old != nil {
		if running := old.Running() != nil; running && known == token {
			return "already running", nil
		} else if running {
			err := d.changeTokens(ctx, known, token)
			if err == nil {
				return "already running, with a new token", nil
			}
			d.cfg.Log.Warn("exec-daemon did not accept a new token", "err", err)
		}
		detail = "restarted"
		d.retire(old)
	}
	if err := d.ownFolder(d.cfg.ExecState); err != nil {
		return "", fmt.Errorf("exec-daemon's folder: %w", err)
	}
	if err := d.artifactsFolder(); err != nil {
		return "", fmt.Errorf("the artifacts' folder: %w", err)
	}
	s := &process.Service{Name: "exec-daemon", Reaper: d.reaper, Log: d.cfg.Log, Secret: token, Longest: maxExecBackoff}
	s.Command = func() *exec.Cmd {
		d.mu.Lock()
		token := cmp.Or(d.token, token) // the token may have changed by now
		d.mu.Unlock()
		return d.execCommand(b, token)
	}
	if err := s.Launch(); err != nil {
		return "", err
	}
	d.mu.Lock()
	d.exec, d.token = s, token
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, execStart)
	defer cancel()
	if err := s.Listening(ctx, func(ctx context.Context) error {
		conn, err := dialTCP(ctx, d.cfg.ExecAddr)
		if err == nil {
			_ = conn.Close()
		}
		return err
	}); err != nil {
		d.retire(s)
		return "", err
	}
	b.awaitTerminals(ctx)
	return detail, nil
}

// retire stops and forgets a service, including everything that it started.
func (d *Daemon) retire(s *process.Service) {
	s.Stop(termGrace)
	s.Bury()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.before += s.State().Restarts
	d.exec, d.token = nil, ""
}

// agentPrefix is the prefix of the variables that pass the agent's environment
// to exec-daemon. exec-daemon does not apply them to itself, because they could
// change what programs it runs.
const agentPrefix = "ALOFT_AGENT_ENV_"

func (d *Daemon) execCommand(b *boot, token string) *exec.Cmd {
	_, port, _ := net.SplitHostPort(d.cfg.ExecAddr) // validated at startup
	_, ptyPort, _ := net.SplitHostPort(d.cfg.PTYAddr)
	path := b.root()
	//nolint:noctx // outlives the boot; its service stops it
	cmd := exec.Command(d.cfg.ExecDaemon, "serve",
		"--port", port, "--pty-websocket-port", ptyPort, "--state-dir", d.cfg.ExecState, "--workspace", path,
		"--artifacts-dir", d.cfg.Artifacts, "--tmux-socket", d.tmuxSocket(), "--tmux-kept", "--secret-redaction-enabled",
		"--record-screen-enabled", "--generate-image-enabled", "--computer-use-enabled", "--cloud-rules-enabled", "--sandbox-enabled", // each call says whether it runs in the sandbox
		"--sandbox-helper-path", filepath.Join(filepath.Dir(d.cfg.ExecDaemon), "sandbox"))
	d.mu.Lock()
	if d.spans != nil {
		cmd.Args = append(cmd.Args, "--ghost-mode=false", "--trace-insecure", "--trace-endpoint", "http://"+d.spans.Addr().String())
	}
	if model := b.req.GetEmbeddingModel(); model != "" && d.embed != nil {
		cmd.Args = append(cmd.Args, "--embedding-url", "http://"+d.embed.Addr().String()+"/v1", "--embedding-model", model)
	}
	d.mu.Unlock()
	cmd.Dir = path
	cmd.SysProcAttr = d.user.Load().attributes()
	cmd.SysProcAttr.Setsid = true
	cmd.Env = append(d.ownEnviron(), "EXEC_DAEMON_AUTH_TOKEN="+token, "ALOFT_BOOT_ID="+d.bootID)
	for _, variable := range d.environ() {
		cmd.Env = append(cmd.Env, agentPrefix+variable)
	}
	return cmd
}
