package pod

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"connectrpc.com/connect"

	"aloft/internal/control/machinerpc"
	"aloft/internal/policy/sandbox"
	"aloft/internal/wire/podv1"
)

// Exit is the result of a command.
type Exit struct {
	Code     int // exit code; 128 plus the signal's number if the command was killed
	TimedOut bool
}

// RunCommand runs a command in the machine's workspace, as the agent's user
// with a login shell and an empty standard input. It writes the command's
// untrusted output to the writer output. A command that runs longer than limit
// is killed; 0 means no limit. A failed command is not an error. The error
// means that the machine is gone, that output returned an error, or that ctx
// ended, which also ends the command.
func (c *Conn) RunCommand(ctx context.Context, command string, limit time.Duration, output io.Writer) (Exit, error) {
	return c.runCommand(ctx, &podv1.RunCommandRequest{Command: command, TimeLimitMs: limit.Milliseconds()}, output)
}

// RunSandboxed is like RunCommand, but runs the command in the machine's
// sandbox. If the sandbox cannot enforce the policy, nothing runs and the exit
// code is 123.
func (c *Conn) RunSandboxed(ctx context.Context, p sandbox.Policy, command string, limit time.Duration, output io.Writer) (Exit, error) {
	return c.runCommand(ctx, &podv1.RunCommandRequest{Command: command, TimeLimitMs: limit.Milliseconds(), SandboxPolicy: machinerpc.EncodePolicy(p)}, output)
}

func (c *Conn) runCommand(ctx context.Context, req *podv1.RunCommandRequest, output io.Writer) (Exit, error) {
	limited := ctx
	if limit := req.GetTimeLimitMs(); limit > 0 { // a hostile machine may ignore the limit
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, time.Duration(limit)*time.Millisecond+c.grace)
		defer cancel()
	}
	stream, err := c.pod.RunCommand(limited, connect.NewRequest(req))
	if overdue(ctx, err) {
		return Exit{TimedOut: true}, nil
	}
	if err != nil {
		return Exit{}, fmt.Errorf("run a command: %w", c.rpcError(err))
	}
	defer func() { _ = stream.Close() }()
	words := c.Redactor().Stream()
	keep := func(b []byte) error {
		if _, err := output.Write(b); err != nil {
			return fmt.Errorf("write a command's output: %w", err)
		}
		return nil
	}
	for stream.Receive() {
		switch event := stream.Msg().GetEvent().(type) {
		case *podv1.RunCommandResponse_Output:
			if err := keep(words.Next(event.Output)); err != nil {
				return Exit{}, err
			}
		case *podv1.RunCommandResponse_Exit:
			if err := keep(words.Flush()); err != nil {
				return Exit{}, err
			}
			return Exit{Code: int(event.Exit.GetCode()), TimedOut: event.Exit.GetTimedOut()}, nil
		}
	}
	err = stream.Err()
	if err == nil {
		err = errors.New("the machine ended the command without an exit code")
	}
	if overdue(ctx, err) {
		return Exit{TimedOut: true}, nil
	}
	return Exit{}, fmt.Errorf("run a command: %w", c.rpcError(err))
}
