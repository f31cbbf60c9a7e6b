package mirror

import "golang.org/x/sys/unix"

// limit limits a resource of a process and of what it starts from now on, unless the
// limit is 0: memory, so that a malicious pack fails alone, and the size of files,
// since git writes the pack of a fetch to one file. A process that has ended is
// ignored.
func limit(pid, resource int, bytes uint64) {
	if bytes > 0 {
		_ = unix.Prlimit(pid, resource, &unix.Rlimit{Cur: bytes, Max: bytes}, nil)
	}
}
