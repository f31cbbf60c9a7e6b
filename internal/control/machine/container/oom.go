package container

import (
	"cmp"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"aloft/internal/control/cgroup"
	"aloft/internal/control/machine"
	"aloft/internal/fault"
)

var _ machine.MemoryAccounted = (*Machine)(nil)

// OutOfMemory implements [machine.MemoryAccounted]. The cgroup counts the kills;
// the kernel's log names the processes.
func (m *Machine) OutOfMemory(known int) (o machine.OutOfMemory, ok bool) {
	all, err := cgroup.Mounted()
	if err != nil {
		return o, false
	}
	for _, h := range all {
		o.Kills = max(o.Kills, h.Kills(m.cgroup)) // with those of the cgroups below
	}
	if o.Kills <= known {
		return o, false
	}
	rec, err := m.record()
	if err != nil {
		return o, false
	}
	o.Limit, o.Ended = rec.Spec.Limits.MemoryBytes, !m.running()
	eng, err := m.r.engine(rec.Spec.Class)
	if err != nil || eng.gvisor { // the only process on the host is gVisor itself
		return o, err == nil
	}
	kills := parseKills(kernelLog(), m.r.prefix, m.cgroup)
	kills = kills[max(0, len(kills)-(o.Kills-known)):]
	o.Container = len(kills) > 0
	for _, k := range kills {
		o.Killed = append(o.Killed, k.victim)
		o.Largest = k.largest
		o.Container = o.Container && k.nested
	}
	return o, true
}

// maxLargest is how many of the largest processes are reported.
const maxLargest = 5

// kill is an entry of the kernel's log about a killed process.
type kill struct {
	victim  machine.Process
	largest []machine.Process
	nested  bool // the limit that was reached is that of a cgroup below the machine's
}

// parseKills returns the kills in the named cgroup, and in those below it, from
// the messages of the kernel's log. Each kill has these messages:
//
//	[  pid  ]   uid  tgid total_vm      rss … name
//	[   2915]  1000  2915   699051    17504 … python3
//	oom-kill:constraint=CONSTRAINT_MEMCG,…,oom_memcg=/x,task_memcg=/x/y,task=python3,pid=2915,uid=1000
//
// The machine chooses the names of its processes and of the cgroups below its
// own. So the first oom_memcg counts, and in it the first cgroup that begins with
// prefix, as those of all machines do.
func parseKills(log []string, prefix, name string) (all []kill) {
	var header []string
	var table []row
	for _, line := range log {
		switch {
		case strings.HasPrefix(line, "[") && strings.HasSuffix(line, " name"):
			header, table = columns(line), nil
		case strings.HasPrefix(line, "["):
			if r, ok := parseRow(header, line); ok {
				table = append(table, r)
			}
		case strings.HasPrefix(line, "oom-kill:"):
			_, rest, _ := strings.Cut(line, ",oom_memcg=")
			group, rest, _ := strings.Cut(rest, ",")
			group = strings.TrimPrefix(group, "/")
			// The server itself may be in a cgroup, whose name comes first.
			before, inside, found := strings.Cut("/"+group+"/", "/"+name+"/")
			at := strings.LastIndex(rest, ",pid=")
			task := strings.LastIndex(rest, ",task=")
			if found && !strings.Contains(before, "/"+prefix) && task >= 0 && at > task {
				pid, _, _ := strings.Cut(rest[at+len(",pid="):], ",")
				all = append(all, makeKill(rest[task+len(",task="):at], pid, table, inside != "" && inside != insideCgroup+"/"))
			}
			table = nil
		}
	}
	return all
}

// row is a process in a table of the kernel's log.
type row struct {
	pid string
	machine.Process
}

func makeKill(name, pid string, table []row, nested bool) kill {
	k := kill{victim: machine.Process{Name: name}, nested: nested}
	slices.SortStableFunc(table, func(a, b row) int { return cmp.Compare(b.Bytes, a.Bytes) })
	for _, r := range table {
		if r.pid == pid {
			k.victim.Bytes = r.Bytes
		}
		if len(k.largest) < maxLargest {
			k.largest = append(k.largest, r.Process)
		}
	}
	return k
}

// columns returns the names of the columns after the process id.
func columns(line string) []string {
	_, rest, _ := strings.Cut(line, "]")
	return strings.Fields(rest)
}

// parseRow parses a line of the table with the given columns. The name, which
// comes last, may contain spaces.
func parseRow(header []string, line string) (r row, ok bool) {
	pid, rest, found := strings.Cut(strings.TrimPrefix(line, "["), "]")
	rss := slices.Index(header, "rss")
	if !found || rss < 0 {
		return r, false
	}
	fields := strings.Fields(rest)
	if len(fields) < len(header) {
		return r, false
	}
	pages, err := strconv.ParseInt(fields[rss], 10, 64)
	if err != nil {
		return r, false
	}
	r.pid = strings.TrimSpace(pid)
	r.Name, r.Bytes = strings.Join(fields[len(header)-1:], " "), pages*int64(os.Getpagesize())
	return r, true
}

// kernelLog returns the messages in the kernel's log, oldest first. It returns
// none if this process may not read them.
func kernelLog() (messages []string) {
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer func() { _ = unix.Close(fd) }()
	buf := make([]byte, 16<<10) // each read returns one message, of at most 8 KiB
	for {
		n, err := unix.Read(fd, buf)
		switch {
		case errors.Is(err, unix.EPIPE) || errors.Is(err, unix.EINTR): // older messages were overwritten meanwhile
			continue
		case err != nil || n == 0:
			return messages
		}
		_, text, ok := strings.Cut(string(buf[:n]), ";")
		if text, _, _ = strings.Cut(text, "\n"); ok { // further lines are metadata
			messages = append(messages, text)
		}
	}
}

// hasMemoryFor returns a fault if the running machines and the new one would be
// guaranteed more memory than the host has.
func (r *Runtime) hasMemoryFor(spec machine.Spec) error {
	asked := spec.Limits.GuaranteedMemoryBytes
	if asked == 0 {
		return nil
	}
	sum, running := r.guaranteed()
	var host unix.Sysinfo_t
	if err := unix.Sysinfo(&host); err != nil {
		return err
	}
	if total := int64(host.Totalram) * int64(host.Unit); sum+asked > total {
		return fault.Exhausted("cannot create a machine: %d running machines are guaranteed %d MiB of the host's %d MiB of memory, and this one needs %d MiB",
			running, sum>>20, total>>20, asked>>20).Named("memory_full").
			Hint("send a follow-up when a machine has gone to sleep, or lower machine.guaranteed_memory_bytes")
	}
	return nil
}

// guaranteed returns the sum of the memory that running machines are guaranteed,
// and how many machines have a guarantee.
func (r *Runtime) guaranteed() (sum int64, running int) {
	ids, err := r.List(r.ctx)
	if err != nil {
		return 0, 0
	}
	for _, id := range ids {
		m := r.handle(id)
		if rec, err := m.record(); err == nil && rec.Spec.Limits.GuaranteedMemoryBytes > 0 && m.running() {
			sum += rec.Spec.Limits.GuaranteedMemoryBytes
			running++
		}
	}
	return sum, running
}
