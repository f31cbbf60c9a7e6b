package process

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
	"time"

	"aloft/internal/guest/usage"
)

// strayInterval is the time between two searches for stray processes, which may
// fork meanwhile.
const strayInterval = 5 * time.Millisecond

// Strays returns the descendants of this process that do not descend from a
// running child of the Reaper: processes that a dead child left behind.
func (r *Reaper) Strays() ([]int, error) {
	return r.strays(func(string) bool { return true })
}

// StraysOf returns the processes that a service left behind. Strays of a supervised
// process carry its name as their mark. Strays of exec-daemon have no mark; pass "" as
// its name.
func (r *Reaper) StraysOf(name string) ([]int, error) {
	return r.strays(func(mark string) bool { return mark == name })
}

// strays returns the strays for which belongs returns true, given their mark. A
// process without a mark inherits the mark of its parent.
func (r *Reaper) strays(belongs func(mark string) bool) ([]int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	children, err := usage.Children()
	if err != nil {
		return nil, err
	}
	type node struct {
		pid  int
		mark string
	}
	var strays []int
	queue := []node{{pid: os.Getpid()}}
	for len(queue) > 0 {
		parent := queue[0]
		queue = queue[1:]
		for _, pid := range children[parent.pid] {
			if r.owns(pid) {
				continue
			}
			mark := markOf(pid)
			if mark == "" {
				mark = parent.mark
			}
			if belongs(mark) {
				strays = append(strays, pid)
			}
			queue = append(queue, node{pid, mark})
		}
	}
	return strays, nil
}

// Variable is the environment variable that contains the name of the supervised process
// to which a process belongs. A process that forges the variable is only killed a little
// later.
const Variable = "ALOFT_PROCESS"

// maxEnviron is how much of a process's environment is read, in bytes. The
// kernel's own limit is similar.
const maxEnviron = 2 << 20

// markOf reads a process's mark. It returns "" if the process has none, or has
// ended.
func markOf(pid int) string {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	env, err := io.ReadAll(io.LimitReader(f, maxEnviron))
	if err != nil {
		return ""
	}
	return mark(env)
}

// mark finds the mark in an environment in the format of /proc/PID/environ.
func mark(environ []byte) string {
	for kv := range bytes.SplitSeq(environ, []byte{0}) {
		if value, ok := bytes.CutPrefix(kv, []byte(Variable+"=")); ok {
			return string(value)
		}
	}
	return ""
}

// EndStrays asks every stray to end, and kills those that have not ended after
// grace. If ctx ends first, the error says how many are left.
func (r *Reaper) EndStrays(ctx context.Context, grace time.Duration) error {
	strays, err := r.Strays()
	if err != nil {
		return err
	}
	for _, pid := range strays {
		// An interactive shell ignores SIGTERM but ends on SIGHUP.
		signalPID(pid, syscall.SIGTERM)
		signalPID(pid, syscall.SIGHUP)
		signalPID(pid, syscall.SIGCONT)
	}
	patience, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	if r.untilNone(patience, r.Strays, func(int) {}) == nil {
		return nil
	}
	return r.KillStrays(ctx)
}

// KillStrays kills the strays until there are none or ctx ends.
func (r *Reaper) KillStrays(ctx context.Context) error {
	return r.untilNone(ctx, r.Strays, func(pid int) { signalPID(pid, syscall.SIGKILL) })
}

// KillStraysOf kills the strays of one service until there are none or ctx
// ends.
func (r *Reaper) KillStraysOf(ctx context.Context, name string) error {
	return r.untilNone(ctx, func() ([]int, error) { return r.StraysOf(name) }, func(pid int) { signalPID(pid, syscall.SIGKILL) })
}

// untilNone calls each for every stray that look returns, repeatedly until there are
// none.
func (r *Reaper) untilNone(ctx context.Context, look func() ([]int, error), each func(pid int)) error {
	tick := time.NewTicker(strayInterval)
	defer tick.Stop()
	for {
		strays, err := look()
		if err != nil || len(strays) == 0 {
			return err
		}
		for _, pid := range strays {
			each(pid)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d processes are still running: %w", len(strays), context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// signalPID signals a stray, which may have ended already.
func signalPID(pid int, sig syscall.Signal) { _ = syscall.Kill(pid, sig) }
