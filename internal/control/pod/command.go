package pod

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"connectrpc.com/connect"

	"aloft/internal/policy/sandbox"
	"aloft/internal/wire/podv1"
)

// Exit is how a command ended.
type Exit struct {
	Code     int // 128 and the signal's number for one that was killed
	TimedOut bool
}

// RunCommand runs a command in the machine's workspace, as the agent's user and
// by its login shell, with nothing on its standard input, and writes what it
// prints to output, which is the machine's word. A command that takes longer
// than limit is ended; 0 is no limit. The error is not the command's: it says
// that the machine is gone, or that output took no more, or ctx's end, with
// which the command ends too.
func (c *Conn) RunCommand(ctx context.Context, command string, limit time.Duration, output io.Writer) (Exit, error) {
	return c.runCommand(ctx, &podv1.RunCommandRequest{Command: command, TimeLimitMs: limit.Milliseconds()}, output)
}

// RunSandboxed is RunCommand in the machine's sandbox. One that cannot enforce the
// policy runs nothing, and the exit code is 123.
func (c *Conn) RunSandboxed(ctx context.Context, p sandbox.Policy, command string, limit time.Duration, output io.Writer) (Exit, error) {
	return c.runCommand(ctx, &podv1.RunCommandRequest{Command: command, TimeLimitMs: limit.Milliseconds(), SandboxPolicy: encodePolicy(p)}, output)
}

func (c *Conn) runCommand(ctx context.Context, req *podv1.RunCommandRequest, output io.Writer) (Exit, error) {
	limited := ctx
	if limit := req.GetTimeLimitMs(); limit > 0 { // which a machine may not heed
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
	words := c.secrets.redactor().Stream()
	keep := func(b []byte) error {
		if _, err := output.Write(b); err != nil {
			return fmt.Errorf("keep a command's output: %w", err)
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
		err = errors.New("the machine ended the command without a word")
	}
	if overdue(ctx, err) {
		return Exit{TimedOut: true}, nil
	}
	return Exit{}, fmt.Errorf("run a command: %w", c.rpcError(err))
}
