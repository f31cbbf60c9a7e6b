package mirror

import "golang.org/x/sys/unix"

// limitData bounds what a process may allocate from now on, so that a pack made
// to unfold without end fails alone. A process that has ended needs no bound.
func limitData(pid int, bytes uint64) {
	_ = unix.Prlimit(pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: bytes, Max: bytes}, nil)
}

// limitFile bounds what a process, and those that it starts, may write to one
// file from now on. Git writes a fetch to one.
func limitFile(pid int, bytes uint64) {
	_ = unix.Prlimit(pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: bytes, Max: bytes}, nil)
}

// yield has a process group run when others do not want to.
func yield(pid int) { _ = unix.Setpriority(unix.PRIO_PGRP, pid, 15) }
