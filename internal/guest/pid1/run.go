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
	"aloft/internal/guest/process"
)

// Time for a command to end after SIGTERM, and for its descendants to close its output.
const (
	termGrace   = 2 * time.Second
	outputGrace = time.Second
)

// run runs a command of the agent or its environment.
func (d *Daemon) run(ctx context.Context, c checkout.Command) (int, error) {
	return d.runIn(ctx, d.environ(), c)
}

// runOwn is the machine's [checkout.Runner]. The agent's environment variables
// reach the project's hooks but not git itself.
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
	//nolint:noctx // os/exec would use a context in Wait, which only the Reaper may call; ctx is handled below
	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	cmd.Env, cmd.Dir, cmd.SysProcAttr = env, c.Dir, d.user.Load().attributes()
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	var pipes plumbing
	defer pipes.close()
	if err := pipes.attach(cmd, c); err != nil {
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
	return process.ExitCode(child.Status()), nil
}

// roomWait is how long to retry starting a command if the machine has reached its
// process limit. Killed processes of the agent take a while to disappear.
const roomWait = 15 * time.Second

func (d *Daemon) startWhenThereIsRoom(ctx context.Context, cmd *exec.Cmd) (*process.Child, error) {
	giveUp := time.Now().Add(roomWait)
	for {
		attempt := *cmd // a command that failed to start cannot be started again
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

// plumbing is the set of pipes between this process and a child. os/exec would copy them
// in Wait, which only the Reaper may call.
type plumbing struct {
	theirs, ours []*os.File
	copies       []func()
	running      sync.WaitGroup
}

func (p *plumbing) attach(cmd *exec.Cmd, c checkout.Command) error {
	if c.Stdin != "" {
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		p.theirs, p.ours = append(p.theirs, r), append(p.ours, w)
		cmd.Stdin = r
		p.copies = append(p.copies, func() {
			_, _ = io.WriteString(w, c.Stdin) // the command may end without reading it
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
			_, _ = io.Copy(out.dst, r) // the destination is full, or the command has ended
			_ = r.Close()
		})
	}
	return nil
}

// flow starts copying, once the child has its ends of the pipes.
func (p *plumbing) flow() {
	for _, f := range p.theirs {
		_ = f.Close()
	}
	for _, c := range p.copies {
		p.running.Go(c)
	}
}

// drain waits until everything is copied, but at most d if another process
// holds the pipes open.
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
