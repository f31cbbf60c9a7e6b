package pid1

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// strayInterval is how often it is looked again for what was forked meanwhile.
const strayInterval = 5 * time.Millisecond

// Strays returns the processes that descend from this one and from no child
// that the Reaper started: what a dead child left behind, and what that made.
func (r *Reaper) Strays() ([]int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	children, err := processes()
	if err != nil {
		return nil, err
	}
	var strays []int
	queue := []int{os.Getpid()}
	for len(queue) > 0 {
		parent := queue[0]
		queue = queue[1:]
		for _, pid := range children[parent] {
			if !r.owns(pid) {
				strays = append(strays, pid)
				queue = append(queue, pid)
			}
		}
	}
	return strays, nil
}

// EndStrays asks every stray to end and kills those that have not after grace.
// Its error, when ctx ends first, counts those that are left.
func (r *Reaper) EndStrays(ctx context.Context, grace time.Duration) error {
	strays, err := r.Strays()
	if err != nil {
		return err
	}
	for _, pid := range strays {
		// A shell at its prompt ignores the one and heeds the other.
		signalPID(pid, syscall.SIGTERM)
		signalPID(pid, syscall.SIGHUP)
		signalPID(pid, syscall.SIGCONT)
	}
	patience, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	if r.untilNone(patience, func(int) {}) == nil {
		return nil
	}
	return r.KillStrays(ctx)
}

// KillStrays kills the strays until there are none, or ctx ends.
func (r *Reaper) KillStrays(ctx context.Context) error {
	return r.untilNone(ctx, func(pid int) { signalPID(pid, syscall.SIGKILL) })
}

// untilNone does each to every stray, again and again until there are none.
func (r *Reaper) untilNone(ctx context.Context, each func(pid int)) error {
	tick := time.NewTicker(strayInterval)
	defer tick.Stop()
	for {
		strays, err := r.Strays()
		if err != nil || len(strays) == 0 {
			return err
		}
		for _, pid := range strays {
			each(pid)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d processes are left: %w", len(strays), context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// signalPID signals a stray. One that is gone already needs none.
func signalPID(pid int, sig syscall.Signal) { _ = syscall.Kill(pid, sig) }

// processes returns the living processes by parent.
func processes() (map[int][]int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	if len(stats) == 0 {
		return nil, fmt.Errorf("no process to be seen in /proc: is it mounted?")
	}
	children := make(map[int][]int)
	for _, name := range stats {
		line, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended since
		}
		pid, parent, state, ok := parseStat(line)
		if ok && state != 'Z' && state != 'X' {
			children[parent] = append(children[parent], pid)
		}
	}
	return children, nil
}

// parseStat reads the first fields of /proc/PID/stat: "pid (name) state ppid …".
// The name is the process's own choice and may hold parentheses and spaces.
func parseStat(line []byte) (pid, parent int, state byte, ok bool) {
	open, end := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 1 || end < open {
		return 0, 0, 0, false
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(line[:open])))
	if err != nil {
		return 0, 0, 0, false
	}
	fields := bytes.Fields(line[end+1:])
	if len(fields) < 2 || len(fields[0]) != 1 {
		return 0, 0, 0, false
	}
	parent, err = strconv.Atoi(string(fields[1]))
	if err != nil {
		return 0, 0, 0, false
	}
	return pid, parent, fields[0][0], true
}
