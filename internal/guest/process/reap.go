// Package process starts the processes of a machine as its PID 1: it reaps all children,
// restarts services that end, kills the processes that they leave behind, and keeps the
// last part of their output.
package process

import (
	"errors"
	"os/exec"
	"sync"
	"syscall"
)

// A Reaper waits for all children of the process: it delivers the exit status
// of children that Start has started, and reaps inherited orphans. Nothing else
// in the process may wait for children, not even os/exec, because it would
// compete with the Reaper for their status. Its methods are safe for concurrent
// use.
type Reaper struct {
	// mu is locked while a child is started or reaped, so that a child that
	// exits at once is registered before it is reaped.
	mu  sync.Mutex
	own map[int]*Child
}

// NewReaper makes a Reaper. The caller must call Reap on each SIGCHLD.
func NewReaper() *Reaper { return &Reaper{own: make(map[int]*Child)} }

// Child is a process started by the Reaper.
type Child struct {
	PID    int
	reaper *Reaper
	done   chan struct{}
	status syscall.WaitStatus
}

// Start starts cmd in its own process group, or in its own session if cmd asks
// for one. cmd's streams must be files or nil. The caller must not use cmd.Wait
// or cmd.Process.
func (r *Reaper) Start(cmd *exec.Cmd) (*Child, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = !cmd.SysProcAttr.Setsid
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &Child{PID: cmd.Process.Pid, reaper: r, done: make(chan struct{})}
	r.own[c.PID] = c
	return c, cmd.Process.Release()
}

// Reap reaps every child that has ended, and does not block. If a child was
// stopped (SIGSTOP), Reap continues it, because no other process would.
func (r *Reaper) Reap() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG|syscall.WUNTRACED, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if status.Stopped() {
			if r.owns(pid) {
				_ = syscall.Kill(pid, syscall.SIGCONT) // the pid is still valid, since only Reap reaps it
			}
			continue
		}
		if c := r.own[pid]; c != nil {
			delete(r.own, pid)
			c.status = status
			close(c.done)
		}
	}
}

// owns reports whether pid is a child that Start made. r.mu must be held.
func (r *Reaper) owns(pid int) bool { return r.own[pid] != nil }

// Done is closed when the child has ended.
func (c *Child) Done() <-chan struct{} { return c.done }

// Status is the child's exit status; valid once Done is closed.
func (c *Child) Status() syscall.WaitStatus { return c.status }

// SignalGroup sends a signal to the child's process group. It does nothing if the child
// has ended, because another process could have its pid.
func (c *Child) SignalGroup(sig syscall.Signal) {
	c.reaper.mu.Lock()
	defer c.reaper.mu.Unlock()
	if c.reaper.own[c.PID] == c {
		// The child may have ended without being reaped yet; that does no harm.
		_ = syscall.Kill(-c.PID, sig)
	}
}

// Signal sends a signal to the child only, unless it has ended.
func (c *Child) Signal(sig syscall.Signal) {
	c.reaper.mu.Lock()
	defer c.reaper.mu.Unlock()
	if c.reaper.own[c.PID] == c {
		_ = syscall.Kill(c.PID, sig)
	}
}

// KillOwn kills the process groups of all running children that Start made.
func (r *Reaper) KillOwn() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for pid := range r.own {
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
}
