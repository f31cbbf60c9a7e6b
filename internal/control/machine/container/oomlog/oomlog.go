// Package oomlog reads from the kernel's log which processes of a machine the kernel
// has killed for lack of memory. Machines choose the names of processes and of
// cgroups in that log.
package oomlog

import (
	"cmp"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"aloft/internal/control/machine"
)

// maxLargest is how many of the largest processes are reported.
const maxLargest = 5

// A Kill is an entry of the kernel's log about a killed process.
type Kill struct {
	Victim  machine.Process
	Largest []machine.Process // the largest processes at that time, at most 5, largest first
	Nested  bool              // the limit that was reached belongs to a cgroup below the machine's
}

// Read returns the kills in the named cgroup of a machine and in the cgroups
// below it, oldest first, as far as the kernel's log still has them. inner is
// the name of the child cgroup with the machine's own processes. prefix is the
// prefix of the cgroup names of all machines. Read returns none if this process
// may not read the log.
func Read(prefix, name, inner string) []Kill { return parse(messages(), prefix, name, inner) }

// parse returns the kills of Read from the messages of the kernel's log. Each kill has these messages:
//
//	[  pid  ]   uid  tgid total_vm      rss … name
//	[   2915]  1000  2915   699051    17504 … python3
//	oom-kill:constraint=CONSTRAINT_MEMCG,…,oom_memcg=/x,task_memcg=/x/y,task=python3,pid=2915,uid=1000
//
// The machine chooses the names of its processes and of the cgroups below its
// own. So parse uses the first oom_memcg, and in its path the first cgroup
// whose name begins with prefix.
func parse(log []string, prefix, name, inner string) (all []Kill) {
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
			// The path may begin with the cgroup in which the server itself runs.
			before, below, found := strings.Cut("/"+group+"/", "/"+name+"/")
			at := strings.LastIndex(rest, ",pid=")
			task := strings.LastIndex(rest, ",task=")
			if found && !strings.Contains(before, "/"+prefix) && task >= 0 && at > task {
				pid, _, _ := strings.Cut(rest[at+len(",pid="):], ",")
				all = append(all, makeKill(rest[task+len(",task="):at], pid, table, below != "" && below != inner+"/"))
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

func makeKill(name, pid string, table []row, nested bool) Kill {
	k := Kill{Victim: machine.Process{Name: name}, Nested: nested}
	slices.SortStableFunc(table, func(a, b row) int { return cmp.Compare(b.Bytes, a.Bytes) })
	for _, r := range table {
		if r.pid == pid {
			k.Victim.Bytes = r.Bytes
		}
		if len(k.Largest) < maxLargest {
			k.Largest = append(k.Largest, r.Process)
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

// messages returns the messages in the kernel's log, oldest first. It returns
// none if this process may not read them.
func messages() (all []string) {
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
			return all
		}
		_, text, ok := strings.Cut(string(buf[:n]), ";")
		if text, _, _ = strings.Cut(text, "\n"); ok { // further lines are metadata
			all = append(all, text)
		}
	}
}
