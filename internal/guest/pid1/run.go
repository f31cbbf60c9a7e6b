package pid1

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"aloft/internal/guest/checkout"
)

// Times that a command is given: to end when it is told to, and for what it
// left behind to let go of its output.
const (
	termGrace   = 2 * time.Second
	outputGrace = time.Second
)

// run runs a command of the agent's or of its environment.
func (d *Daemon) run(ctx context.Context, c checkout.Command) (int, error) {
	return d.runIn(ctx, d.environ(), c)
}

// runOwn is the machine's [checkout.Runner]: variables that the agent was given
// reach the project's hooks, and git itself not.
func (d *Daemon) runOwn(ctx context.Context, c checkout.Command) (int, error) {
	env := d.ownEnviron()
	if c.Hooks {
		env = d.environ()
	}
	if c.Clean {
		env = slices.DeleteFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "GIT_") })
	}
	return d.runIn(ctx, env, c)
}

func (d *Daemon) runIn(ctx context.Context, env []string, c checkout.Command) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, context.Cause(ctx)
	}
	env = append(env, c.Env...)
	//nolint:noctx // os/exec would heed a context in its Wait, which is the Reaper's; ctx is heeded below
	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	cmd.Env, cmd.Dir, cmd.SysProcAttr = env, c.Dir, d.user.Load().attributes()
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	var pipes plumbing
	defer pipes.close()
	if err := pipes.fit(cmd, c); err != nil {
		return 0, err
	}
	child, err := d.startWhenThereIsRoom(ctx, cmd)
	if err != nil {
		return 0, fmt.Errorf("start %s: %w", c.Args[0], err)
	}
	pipes.flow()
	select {
	case <-child.Done():
	case <-ctx.Done():
		child.SignalGroup(syscall.SIGTERM)
		select {
		case <-child.Done():
		case <-time.After(termGrace):
		}
		child.SignalGroup(syscall.SIGKILL)
		<-child.Done()
	}
	pipes.drain(outputGrace)
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	return exitCode(child.Status()), nil
}

// roomWait is how long a command waits to be started in a machine that has as
// many processes as it may: those of an agent that were killed take their time.
const roomWait = 15 * time.Second

func (d *Daemon) startWhenThereIsRoom(ctx context.Context, cmd *exec.Cmd) (*Child, error) {
	giveUp := time.Now().Add(roomWait)
	for {
		attempt := *cmd // one that has failed cannot be started again
		child, err := d.reaper.Start(&attempt)
		if !errors.Is(err, syscall.EAGAIN) || time.Now().After(giveUp) {
			return child, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// exitCode is a status as a shell would give it.
func exitCode(s syscall.WaitStatus) int {
	if s.Signaled() {
		return 128 + int(s.Signal())
	}
	return s.ExitStatus()
}

// plumbing is the pipes between us and a child. os/exec would do the same, in
// its Wait, which the Reaper does not let it have.
type plumbing struct {
	theirs, ours []*os.File
	copies       []func()
	running      sync.WaitGroup
}

func (p *plumbing) fit(cmd *exec.Cmd, c checkout.Command) error {
	if c.Stdin != "" {
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		p.theirs, p.ours = append(p.theirs, r), append(p.ours, w)
		cmd.Stdin = r
		p.copies = append(p.copies, func() {
			_, _ = io.WriteString(w, c.Stdin) // a command may end without reading it
			_ = w.Close()
		})
	}
	for _, out := range []struct {
		dst  io.Writer
		file *io.Writer
	}{{c.Stdout, &cmd.Stdout}, {c.Stderr, &cmd.Stderr}} {
		if out.dst == nil {
			continue
		}
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		p.theirs, p.ours = append(p.theirs, w), append(p.ours, r)
		*out.file = w
		p.copies = append(p.copies, func() {
			_, _ = io.Copy(out.dst, r) // out.dst has had enough, or the command is over
			_ = r.Close()
		})
	}
	return nil
}

// flow begins to copy; the child has its ends.
func (p *plumbing) flow() {
	for _, f := range p.theirs {
		_ = f.Close()
	}
	for _, c := range p.copies {
		p.running.Go(c)
	}
}

// drain waits until all is copied, and no longer than d for what somebody else
// holds open.
func (p *plumbing) drain(d time.Duration) {
	late := time.AfterFunc(d, func() {
		for _, f := range p.ours {
			_ = f.SetDeadline(time.Unix(1, 0))
		}
	})
	defer late.Stop()
	p.running.Wait()
}

func (p *plumbing) close() {
	for _, f := range append(p.theirs, p.ours...) {
		_ = f.Close()
	}
}
