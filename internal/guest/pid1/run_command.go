package pid1

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	"aloft/internal/guest/checkout"
	"aloft/internal/guest/sandbox"
	"aloft/internal/guest/sandbox/asked"
	sandboxpolicy "aloft/internal/policy/sandbox"
	"aloft/internal/wire/agentv1"
	"aloft/internal/wire/podv1"
)

// errTooLong is the cause with which a command is killed at its time limit.
var errTooLong = errors.New("the command took too long")

// maxOutput is the largest output message, in bytes.
const maxOutput = 32 << 10

// RunCommand implements pod.v1's PodService.
func (s *podServer) RunCommand(ctx context.Context, req *connect.Request[podv1.RunCommandRequest], stream *connect.ServerStream[podv1.RunCommandResponse]) error {
	command, limit := req.Msg.GetCommand(), req.Msg.GetTimeLimitMs()
	if command == "" || strings.ContainsRune(command, 0) || limit < 0 || limit > math.MaxInt64/int64(time.Millisecond) {
		return connect.NewError(connect.CodeInvalidArgument, errors.New("command: empty or with a NUL byte, or time_limit_ms is out of range"))
	}
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, time.Duration(limit)*time.Millisecond, errTooLong)
		defer cancel()
	}
	argv := []string{usableShell(s.d.user.Load().Shell), "-l", "-c", command}
	if p := req.Msg.GetSandboxPolicy(); p != nil {
		var err error
		if argv, err = s.d.confined(p, argv); err != nil {
			return err
		}
	}
	out := &outputStream{stream: stream}
	// Merge stdout and stderr before the command starts, so that their lines
	// stay in order.
	exit, err := s.d.run(ctx, checkout.Command{
		Args:   append([]string{"/bin/sh", "-c", `exec "$@" 2>&1`, "sh"}, argv...),
		Dir:    s.d.workspace(),
		Stdout: out,
	})
	end := &podv1.CommandExit{Code: int32(exit)}
	switch {
	case errors.Is(err, errTooLong):
		end.Code, end.TimedOut = 128+15, true
	case err != nil:
		return err
	}
	return out.end(end)
}

// confined wraps a command in the sandbox program, which is next to
// exec-daemon.
func (d *Daemon) confined(p *agentv1.SandboxPolicy, argv []string) ([]string, error) {
	args, err := sandbox.Arguments(sandbox.Request{
		Policy: asked.Policy(p), Workspaces: []string{d.workspace()}, Home: d.user.Load().Home, Temp: sandboxpolicy.TempFolders, Masked: []string{d.cfg.ExecState, d.tmuxSocket()},
	}, argv...)
	return append([]string{filepath.Join(filepath.Dir(d.cfg.ExecDaemon), "sandbox")}, args...), err
}

// usableShell returns the user's shell, or another shell if the user's is nologin or
// false.
func usableShell(shell string) string {
	if base := filepath.Base(shell); exists(shell) && base != "nologin" && base != "false" {
		return shell
	}
	if exists("/bin/bash") {
		return "/bin/bash"
	}
	return "/bin/sh"
}

// outputStream sends a command's output. It drops output that arrives after the
// call has ended.
type outputStream struct {
	stream *connect.ServerStream[podv1.RunCommandResponse]

	mu   sync.Mutex
	over bool
}

// Write implements [io.Writer].
func (o *outputStream) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for sent := 0; sent < len(p); sent += maxOutput {
		if o.over {
			return sent, errors.New("the call has ended")
		}
		piece := p[sent:min(len(p), sent+maxOutput)]
		if err := o.stream.Send(&podv1.RunCommandResponse{Event: &podv1.RunCommandResponse_Output{Output: piece}}); err != nil {
			return sent, err
		}
	}
	return len(p), nil
}

func (o *outputStream) end(exit *podv1.CommandExit) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = true
	return o.stream.Send(&podv1.RunCommandResponse{Event: &podv1.RunCommandResponse_Exit{Exit: exit}})
}
