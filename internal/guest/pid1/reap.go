package pid1

import (
	"errors"
	"os/exec"
	"sync"
	"syscall"
)

// A Reaper waits for every child of the process: those it started, whose
// status it hands to whoever started them, and orphans that the kernel gave it,
// which it buries. It is the only one in the process that waits: a second
// waiter (os/exec's among them) would lose its status to it. Its methods are
// safe for concurrent use.
type Reaper struct {
	// mu is held while a child is started and while one is reaped, so that a
	// child that ends at once is known before it is met.
	mu  sync.Mutex
	own map[int]*Child
}

// NewReaper makes a Reaper with no children. Reap is to be called whenever
// SIGCHLD comes.
func NewReaper() *Reaper { return &Reaper{own: make(map[int]*Child)} }

// Child is a process that the Reaper started.
type Child struct {
	PID    int
	reaper *Reaper
	done   chan struct{}
	status syscall.WaitStatus
}

// Start starts cmd in a process group of its own, or a session where cmd asks
// for one. cmd's streams must be files or nil, and neither its Wait nor its
// Process may be used.
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

// Reap waits for every child that has ended, and does not block. A child of
// our own that somebody has stopped goes on: a service that stands still answers
// to nobody, and nobody else would start it again.
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
				_ = syscall.Kill(pid, syscall.SIGCONT) // it cannot be gone: nobody but us reaps it
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

// Status is how the child ended; valid once Done is closed.
func (c *Child) Status() syscall.WaitStatus { return c.status }

// SignalGroup sends a signal to the child and its process group, unless the
// child has ended: its number may be another's by then.
func (c *Child) SignalGroup(sig syscall.Signal) {
	c.reaper.mu.Lock()
	defer c.reaper.mu.Unlock()
	if c.reaper.own[c.PID] == c {
		// It may have ended without being reaped yet: no harm.
		_ = syscall.Kill(-c.PID, sig)
	}
}

// Signal sends a signal to the child alone, unless it has ended.
func (c *Child) Signal(sig syscall.Signal) {
	c.reaper.mu.Lock()
	defer c.reaper.mu.Unlock()
	if c.reaper.own[c.PID] == c {
		_ = syscall.Kill(c.PID, sig)
	}
}

// KillOwn kills every child that Start made and that has not ended, with its
// process group.
func (r *Reaper) KillOwn() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for pid := range r.own {
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
}
