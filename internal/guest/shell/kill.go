package shell

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// markVariable is set to the mark of the call in the environment of every
// process that a command starts.
const markVariable = "ALOFT_CALL"

// How long a killed command may take to end after SIGTERM, and how long to wait
// after SIGKILL.
const (
	grace    = time.Second
	patience = 10 * time.Second // long enough for hundreds of processes that compete for the processor
	interval = 5 * time.Millisecond
)

// killCall ends all processes of a call: first with SIGTERM, then with SIGKILL.
func killCall(bash int, mark string, old before) {
	signalUntil(bash, mark, old, syscall.SIGTERM, grace)
	signalUntil(bash, mark, old, syscall.SIGKILL, patience)
}

// signalUntil sends each process of the call a signal once, including processes that
// appear meanwhile. It returns when no process is left, or after limit. If processes
// appear after SIGKILL, it stops all of them before it kills more: otherwise a fork bomb
// would replace each killed process.
func signalUntil(bash int, mark string, old before, sig syscall.Signal, limit time.Duration) {
	signalled := map[int]bool{}
	for deadline := time.Now().Add(limit); ; time.Sleep(interval) {
		members := callMembers(bash, mark, old)
		if sig == syscall.SIGKILL && len(signalled) > 0 && slices.ContainsFunc(members, func(pid int) bool { return !signalled[pid] }) {
			members = stopAll(bash, mark, old)
		}
		for _, pid := range members {
			if !signalled[pid] {
				signalled[pid] = true
				_ = syscall.Kill(pid, sig)             // it may have exited already
				_ = syscall.Kill(pid, syscall.SIGCONT) // a stopped process does not receive the signal
			}
		}
		if len(members) == 0 || time.Now().After(deadline) {
			return
		}
	}
}

// stopAll stops the processes of the call, including processes that appear
// meanwhile, and returns them. It gives up after some rounds.
func stopAll(bash int, mark string, old before) (members []int) {
	const rounds = 20
	stopped := map[int]bool{}
	for range rounds {
		members = callMembers(bash, mark, old)
		were := len(stopped)
		for _, pid := range members {
			if !stopped[pid] {
				stopped[pid] = true
				_ = syscall.Kill(pid, syscall.SIGSTOP) // it may have exited already
			}
		}
		if len(stopped) == were {
			break
		}
	}
	return members
}

// process is one entry of /proc.
type process struct {
	pid, parent, session int
	start                uint64 // clock ticks after boot
	mark                 string // empty if its environment has none
}

// callMembers returns the living processes of a call. A process is recognized
// by the mark in its environment. A process without a mark (a forked subshell,
// or env -i) belongs to its parent's call. A child of bash, or an orphan in
// bash's session, is assigned by its start time.
func callMembers(bash int, mark string, old before) []int {
	all := processes()
	known := map[int]bool{bash: false}
	var belongs func(pid, depth int) bool
	belongs = func(pid, depth int) bool {
		if is, ok := known[pid]; ok {
			return is
		}
		p, ok := all[pid]
		if !ok || depth > 1000 {
			return false
		}
		is := false
		switch {
		case p.mark != "":
			is = p.mark == mark
		case p.parent == bash, p.session == bash && orphan(all, p):
			is = !old.has(p)
		default:
			is = belongs(p.parent, depth+1)
		}
		known[pid] = is
		return is
	}
	var members []int
	for pid := range all {
		if belongs(pid, 0) {
			members = append(members, pid)
		}
	}
	return members
}

// orphan reports whether p's parent is in another session.
func orphan(all map[int]process, p process) bool { return all[p.parent].session != p.session }

// processes returns the running processes, without zombies.
func processes() map[int]process {
	all := map[int]process{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return all
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it has ended
		}
		p, state, ok := parseStat(string(stat))
		if !ok || state == "Z" || state == "X" {
			continue
		}
		p.pid = pid
		if env, err := os.ReadFile("/proc/" + e.Name() + "/environ"); err == nil {
			p.mark = markIn(env)
		}
		all[pid] = p
	}
	return all
}

// parseStat parses /proc/PID/stat, whose second field is a name in parentheses
// that may contain anything.
func parseStat(stat string) (p process, state string, ok bool) {
	end := strings.LastIndexByte(stat, ')')
	if end < 0 {
		return p, "", false
	}
	f := strings.Fields(stat[end+1:])
	if len(f) < 20 {
		return p, "", false
	}
	p.parent, _ = strconv.Atoi(f[1])
	p.session, _ = strconv.Atoi(f[3])
	p.start, _ = strconv.ParseUint(f[19], 10, 64)
	return p, f[0], true
}

// markIn returns the mark in an environment.
func markIn(env []byte) string {
	for v := range bytes.SplitSeq(env, []byte{0}) {
		if mark, ok := bytes.CutPrefix(v, []byte(markVariable+"=")); ok {
			return string(mark)
		}
	}
	return ""
}

// before records the state at the beginning of a call.
type before struct {
	ticks    uint64       // the time, in clock ticks since boot as in /proc
	children map[int]bool // children of bash; nil if unknown
}

// has reports whether p existed before the call, for a process without a mark
// in its environment. Start times are in ticks, so a process that started in
// the same tick as the call counts as the call's, unless it is known to be
// older.
func (b before) has(p process) bool { return b.children[p.pid] || p.start < b.ticks }

func (s *Session) before() before {
	var b before
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err == nil {
		const perSecond = 100 // USER_HZ, the same on every Linux that Go supports
		b.ticks = uint64(ts.Sec)*perSecond + uint64(ts.Nsec)/(1e9/perSecond)
	}
	if s.bash == nil {
		return b
	}
	pid := strconv.Itoa(s.bash.pid)
	list, err := os.ReadFile("/proc/" + pid + "/task/" + pid + "/children")
	if err != nil || len(list) == 0 {
		return b
	}
	b.children = map[int]bool{}
	for _, child := range strings.Fields(string(list)) {
		if n, err := strconv.Atoi(child); err == nil {
			b.children[n] = true
		}
	}
	return b
}
