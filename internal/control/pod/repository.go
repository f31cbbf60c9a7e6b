package pod

import (
	"context"
	"fmt"

	"connectrpc.com/connect"

	"aloft/internal/wire/podv1"
)

// GitError is git's refusal in the machine: a Code of this package, and git's
// own last words, which are the machine's and hold no credential.
type GitError struct {
	Op, Code, Detail string
	Bundle           string // artifact with the commits that could not be pushed; "" is none
}

func (e *GitError) Error() string { return e.Op + ": " + e.Code + ": " + e.Detail }

// Status says how a machine is.
type Status struct {
	BootID       string
	Booted       bool
	ExecRunning  bool
	ExecRestarts int // how often exec-daemon was started again
}

// Status asks the machine how it is.
func (c *Conn) Status(ctx context.Context) (Status, error) {
	r, err := c.pod.Status(ctx, connect.NewRequest(&podv1.StatusRequest{}))
	if err != nil {
		return Status{}, fmt.Errorf("status: %w", c.rpcError(err))
	}
	return Status{
		BootID:       bounded(r.Msg.GetBootId(), maxWord),
		Booted:       r.Msg.GetBooted(),
		ExecRunning:  r.Msg.GetExecDaemonRunning(),
		ExecRestarts: int(r.Msg.GetExecDaemonRestarts()),
	}, nil
}

// Committed is what Commit did.
type Committed struct {
	Commit string // HEAD, in hex; "" where there is no commit at all
	Made   bool   // false: nothing was changed
	Note   string // why the project's hooks did not let it pass, or were not run; "" if they did
}

// Commit commits whatever is changed in a repository, if anything is: 0 is the
// first of the boot, 1 the first of its others. The project's commit hooks run
// unless skipHooks. A refusal of theirs, or of git, is a [*GitError].
func (c *Conn) Commit(ctx context.Context, repository int, message string, skipHooks bool) (Committed, error) {
	r, err := c.pod.Commit(ctx, connect.NewRequest(&podv1.CommitRequest{Message: message, Repository: int32(repository), SkipHooks: skipHooks}))
	if err != nil {
		return Committed{}, fmt.Errorf("commit: %w", c.rpcError(err))
	}
	if r.Msg.GetError() != "" {
		return Committed{}, &GitError{Op: "commit", Code: code(r.Msg.GetCode()), Detail: bounded(r.Msg.GetError(), maxDetail)}
	}
	return Committed{
		Commit: bounded(r.Msg.GetCommit(), maxWord),
		Made:   r.Msg.GetMade(),
		Note:   bounded(r.Msg.GetNote(), maxDetail),
	}, nil
}

// Pushed is what Push did.
type Pushed struct {
	Commit string // that is on the remote now, in hex
	Note   string // why the project's pre-push hook did not let it pass, or was not run; "" if it did
}

// Push pushes HEAD to the branch of that name, through the gateway, after the
// project's pre-push hook unless skipHooks. A refusal is a [*GitError].
func (c *Conn) Push(ctx context.Context, repository int, branch string, skipHooks bool) (Pushed, error) {
	r, err := c.pod.Push(ctx, connect.NewRequest(&podv1.PushRequest{Branch: branch, Repository: int32(repository), SkipHooks: skipHooks}))
	if err != nil {
		return Pushed{}, fmt.Errorf("push: %w", c.rpcError(err))
	}
	if r.Msg.GetError() != "" {
		return Pushed{}, &GitError{"push", code(r.Msg.GetCode()), bounded(r.Msg.GetError(), maxDetail), bounded(r.Msg.GetBundle(), maxWord)}
	}
	return Pushed{bounded(r.Msg.GetCommit(), maxWord), bounded(r.Msg.GetNote(), maxDetail)}, nil
}

// Diff returns the working tree's difference from a commit, untracked files
// included; base "" is the commit that was checked out first. truncated says
// that the machine left out the rest of a very long one.
func (c *Conn) Diff(ctx context.Context, repository int, base string) (diff string, truncated bool, err error) {
	r, err := c.pod.Diff(ctx, connect.NewRequest(&podv1.DiffRequest{Base: base, Repository: int32(repository)}))
	if err != nil {
		return "", false, fmt.Errorf("diff: %w", c.rpcError(err))
	}
	return bounded(r.Msg.GetDiff(), maxMessage), r.Msg.GetTruncated(), nil
}

// SetGitCredential replaces the credential with which git in the machine
// reaches the gateway.
func (c *Conn) SetGitCredential(ctx context.Context, credential string) error {
	_, err := c.pod.SetGitCredential(ctx, connect.NewRequest(&podv1.SetGitCredentialRequest{Credential: credential}))
	if err != nil {
		return fmt.Errorf("set git credential: %w", c.rpcError(err))
	}
	return nil
}

// Shutdown has the machine stop every process and itself. It returns when the
// machine has agreed; the machine's Wait says when it is done.
func (c *Conn) Shutdown(ctx context.Context) error {
	if _, err := c.pod.Shutdown(ctx, connect.NewRequest(&podv1.ShutdownRequest{})); err != nil {
		return fmt.Errorf("shutdown: %w", c.rpcError(err))
	}
	return nil
}

// Quiesce has the machine let go of all that reaches out of it, so that it can be
// saved with its memory, and ends the connection. The machine has done so when
// Dial finds its socket gone; it listens again when it has been started from its
// memory, or by itself where it is not saved within half a minute.
func (c *Conn) Quiesce(ctx context.Context) error {
	if _, err := c.pod.Quiesce(ctx, connect.NewRequest(&podv1.QuiesceRequest{})); err != nil {
		return fmt.Errorf("quiesce: %w", c.rpcError(err))
	}
	return c.Close()
}
