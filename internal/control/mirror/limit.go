package mirror

import "golang.org/x/sys/unix"

// limit sets a resource limit of a running process and its future children,
// unless bytes is 0. A memory limit confines a malicious pack to its own git
// process. A file size limit bounds a fetch, because git writes its pack to one
// file. A process that has ended is ignored.
func limit(pid, resource int, bytes uint64) {
	if bytes > 0 {
		_ = unix.Prlimit(pid, resource, &unix.Rlimit{Cur: bytes, Max: bytes}, nil)
	}
}
