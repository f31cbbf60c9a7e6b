package mirror

import "golang.org/x/sys/unix"

// limitData limits the memory that a process can allocate from now on, so that
// a malicious pack fails alone. A process that has ended is ignored.
func limitData(pid int, bytes uint64) {
	_ = unix.Prlimit(pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: bytes, Max: bytes}, nil)
}

// limitFile limits the size of each file that a process and its children write
// from now on. git writes the pack of a fetch to one file.
func limitFile(pid int, bytes uint64) {
	_ = unix.Prlimit(pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: bytes, Max: bytes}, nil)
}

// yield gives a process group low priority.
func yield(pid int) { _ = unix.Setpriority(unix.PRIO_PGRP, pid, 15) }
