package pod

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"connectrpc.com/connect"

	"aloft/internal/control/machinerpc"
	"aloft/internal/policy/sandbox"
	"aloft/internal/text"
	"aloft/internal/wire/podv1"
)

// GitError is a failure of git in the machine. It has one of this package's
// codes, and git's last output, which comes from the machine and contains no
// credentials.
type GitError struct {
	Op, Code, Detail string
	Bundle           string // artifact with the commits that could not be pushed, or ""
}

func (e *GitError) Error() string { return e.Op + ": " + e.Code + ": " + e.Detail }

// Status is the state of a machine.
type Status struct {
	BootID       string
	Booted       bool
	ExecRunning  bool
	ExecRestarts int // how often exec-daemon was restarted
}

// Status asks the machine for its state.
func (c *Conn) Status(ctx context.Context) (Status, error) {
	r, err := c.pod.Status(ctx, connect.NewRequest(&podv1.StatusRequest{}))
	if err != nil {
		return Status{}, fmt.Errorf("status: %w", c.rpcError(err))
	}
	return Status{
		BootID:       text.Head(r.Msg.GetBootId(), maxWord),
		Booted:       r.Msg.GetBooted(),
		ExecRunning:  r.Msg.GetExecDaemonRunning(),
		ExecRestarts: int(r.Msg.GetExecDaemonRestarts()),
	}, nil
}

// Committed is the outcome of Commit.
type Committed struct {
	Commit string // HEAD in hex; "" if there are no commits
	Made   bool   // false if there was nothing to commit
	Note   string // why the project's git hooks failed or did not run; "" if they passed
}

// Commit commits all changes in a repository, if any. Repository 0 is the main
// repository of the boot request, and 1 the first additional one. It runs the
// project's commit hooks unless skipHooks is true, in the machine's sandbox
// unless around is nil. If hooks or git fail, the error is a [*GitError].
func (c *Conn) Commit(ctx context.Context, repository int, message string, skipHooks bool, around *sandbox.Policy) (Committed, error) {
	req := &podv1.CommitRequest{Message: message, Repository: int32(repository), SkipHooks: skipHooks}
	if around != nil {
		req.SandboxPolicy = machinerpc.EncodePolicy(*around)
	}
	r, err := c.pod.Commit(ctx, connect.NewRequest(req))
	if err != nil {
		return Committed{}, fmt.Errorf("commit: %w", c.rpcError(err))
	}
	if r.Msg.GetError() != "" {
		return Committed{}, &GitError{Op: "commit", Code: code(r.Msg.GetCode()), Detail: text.Head(r.Msg.GetError(), maxDetail)}
	}
	return Committed{
		Commit: text.Head(r.Msg.GetCommit(), maxWord),
		Made:   r.Msg.GetMade(),
		Note:   text.Head(r.Msg.GetNote(), maxDetail),
	}, nil
}

// Pushed is the outcome of Push.
type Pushed struct {
	Commit string // the commit on the remote, in hex
	Note   string // why the project's pre-push hook failed or did not run; "" if it passed
}

// Push pushes HEAD to the given branch through the gateway. It runs the
// project's pre-push hook first, unless skipHooks is true, in the machine's
// sandbox unless around is nil. If the push is refused, the error is a
// [*GitError].
func (c *Conn) Push(ctx context.Context, repository int, branch string, skipHooks bool, around *sandbox.Policy) (Pushed, error) {
	req := &podv1.PushRequest{Branch: branch, Repository: int32(repository), SkipHooks: skipHooks}
	if around != nil {
		req.SandboxPolicy = machinerpc.EncodePolicy(*around)
	}
	r, err := c.pod.Push(ctx, connect.NewRequest(req))
	if err != nil {
		return Pushed{}, fmt.Errorf("push: %w", c.rpcError(err))
	}
	if r.Msg.GetError() != "" {
		return Pushed{}, &GitError{"push", code(r.Msg.GetCode()), text.Head(r.Msg.GetError(), maxDetail), text.Head(r.Msg.GetBundle(), maxWord)}
	}
	return Pushed{text.Head(r.Msg.GetCommit(), maxWord), text.Head(r.Msg.GetNote(), maxDetail)}, nil
}

// Diff returns the difference between the commit base and the working tree,
// including untracked files. If base is "", it starts from the first commit
// that was checked out. truncated is true if the machine cut off a very long
// diff.
func (c *Conn) Diff(ctx context.Context, repository int, base string) (diff string, truncated bool, err error) {
	r, err := c.pod.Diff(ctx, connect.NewRequest(&podv1.DiffRequest{Base: base, Repository: int32(repository)}))
	if err != nil {
		return "", false, fmt.Errorf("diff: %w", c.rpcError(err))
	}
	return text.Head(r.Msg.GetDiff(), maxMessage), r.Msg.GetTruncated(), nil
}

// Port is a TCP port of the machine's loopback on which a program listens.
type Port struct {
	Port    uint16
	Program string // name of the process; "" if unknown
}

// maxPorts is how many ports of a machine are listed.
const maxPorts = 256

// Ports lists the ports on which programs listen, in ascending order.
func (c *Conn) Ports(ctx context.Context) ([]Port, error) {
	r, err := c.pod.ListPorts(ctx, connect.NewRequest(&podv1.ListPortsRequest{}))
	if err != nil {
		return nil, fmt.Errorf("list ports: %w", c.rpcError(err))
	}
	list := r.Msg.GetPorts()
	ports := make([]Port, 0, min(len(list), maxPorts))
	for _, p := range list[:min(len(list), maxPorts)] {
		if n := p.GetPort(); n > 0 && n <= math.MaxUint16 {
			ports = append(ports, Port{uint16(n), text.Head(p.GetProgram(), maxWord)})
		}
	}
	slices.SortFunc(ports, func(a, b Port) int { return cmp.Compare(a.Port, b.Port) })
	return slices.CompactFunc(ports, func(a, b Port) bool { return a.Port == b.Port }), nil
}

// SetGitCredential replaces the credential with which git in the machine
// authenticates to the gateway.
func (c *Conn) SetGitCredential(ctx context.Context, credential string) error {
	_, err := c.pod.SetGitCredential(ctx, connect.NewRequest(&podv1.SetGitCredentialRequest{Credential: credential}))
	if err != nil {
		return fmt.Errorf("set git credential: %w", c.rpcError(err))
	}
	return nil
}

// Shutdown makes the machine stop all its processes and then itself. It returns
// when the machine has accepted the request; the machine's Wait returns when
// the machine has stopped.
func (c *Conn) Shutdown(ctx context.Context) error {
	if _, err := c.pod.Shutdown(ctx, connect.NewRequest(&podv1.ShutdownRequest{})); err != nil {
		return fmt.Errorf("shutdown: %w", c.rpcError(err))
	}
	return nil
}

// Quiesce makes the machine close all its outside connections, so that it can
// be saved with its memory, and closes this connection. The machine is quiesced
// when Dial no longer finds its socket. The machine listens again after a
// restore from the saved memory, or half a minute later if it was not saved.
func (c *Conn) Quiesce(ctx context.Context) error {
	if _, err := c.pod.Quiesce(ctx, connect.NewRequest(&podv1.QuiesceRequest{})); err != nil {
		return fmt.Errorf("quiesce: %w", c.rpcError(err))
	}
	return c.Close()
}
