package tool

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	gatherPipe  = 1 << 20              // pipe size in bytes; rg can write while nobody reads
	gatherShort = 16 << 10             // bytes; a smaller read is short
	gatherAfter = 16                   // short reads before the first pause
	gatherPause = 2 * time.Millisecond // pause before each later read
)

// gather reads rg's output. rg writes once for each file with a match, and waking the
// reader for each write takes processor time from rg's threads. So after some short
// reads, gather pauses before each read, so that the read returns the data of many
// writes.
type gather struct {
	pipe  *os.File
	short int // short reads in a row
}

// newGather returns a gather, and the end of its pipe to which rg writes. Reads block
// their thread, which is cheaper: the kernel wakes the Go runtime's poller at every
// write, but a blocked reader only when the pipe was empty.
func newGather() (*gather, *os.File, error) {
	var ends [2]int
	if err := syscall.Pipe2(ends[:], syscall.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	in, out := os.NewFile(uintptr(ends[0]), "|0"), os.NewFile(uintptr(ends[1]), "|1")
	_, _ = unix.FcntlInt(uintptr(ends[0]), unix.F_SETPIPE_SZ, gatherPipe) // on failure the pipe is smaller, which is only slower
	return &gather{pipe: in}, out, nil
}

func (g *gather) Read(p []byte) (int, error) {
	if g.short >= gatherAfter {
		time.Sleep(gatherPause)
	}
	n, err := g.pipe.Read(p)
	if g.short++; n >= min(gatherShort, len(p)) {
		g.short = 0
	}
	return n, err
}
