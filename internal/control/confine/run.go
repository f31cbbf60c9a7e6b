package confine

import (
	"context"
	"fmt"
	"os/exec"

	"golang.org/x/sys/unix"
)

// Command describes a command and how to run it.
type Command struct {
	Cmd  *exec.Cmd // created by [exec.CommandContext], not started; Cancel is not used
	Jail Jail
	// Started is called once the command has its own copies of its files, or could
	// not be started.
	Started func()
	// Stop returns the signal that stops the command's process group when the
	// context ends.
	Stop func() unix.Signal
	Low  bool // runs at low priority
}

// LowPriority is the nice value of a command that runs at low priority.
const LowPriority = 15

// Run runs the command in its jail until the command ends. When ctx ends, Run
// sends the signal that Stop returns, and after Cmd.WaitDelay SIGKILL. The
// error of a command that has ended is an [*exec.ExitError] or an [*ExitError].
func (h *Host) Run(ctx context.Context, c Command) error {
	c.SetCancel()
	release, err := h.Start(c.Cmd, c.Jail)
	c.Started()
	if err != nil {
		return err
	}
	defer release()
	return Wait(ctx, c)
}

// Wait waits for a started command, which must have its own process group.
func Wait(ctx context.Context, c Command) error {
	group := -c.Cmd.Process.Pid
	if c.Low {
		_ = unix.Setpriority(unix.PRIO_PGRP, -group, LowPriority) // the process may have ended
	}
	err := c.Cmd.Wait()
	if ctx.Err() != nil {
		_ = unix.Kill(group, unix.SIGKILL) // kill processes that ignored the signal
	}
	return err
}

// SetCancel makes the command stop when its context ends, by the signal that
// Stop returns.
func (c Command) SetCancel() {
	c.Cmd.Cancel = func() error { return unix.Kill(-c.Cmd.Process.Pid, c.Stop()) }
}

// ExitError says how a command ended that another process had started.
type ExitError struct {
	Status unix.WaitStatus
}

// Error implements error.
func (e *ExitError) Error() string {
	if e.Status.Signaled() {
		return "signal: " + e.Status.Signal().String()
	}
	return fmt.Sprintf("exit status %d", e.Status.ExitStatus())
}

// IsUser reports whether id belongs to the users of confined programs.
func IsUser(id int) bool { return id >= FirstUser && id < FirstUser+Users }
