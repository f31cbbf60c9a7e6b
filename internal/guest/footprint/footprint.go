// Package footprint keeps the memory use of a machine's daemons small, because every
// machine on a host runs its own.
package footprint

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// settled is how long after its start a daemon frees the memory that it needed
// only for the start.
const settled = 2 * time.Second

// garbage is the ratio of garbage to live heap, in percent, at which a daemon collects
// garbage.
const garbage = 50

// Keep keeps the process small until ctx ends: it collects garbage early, and gives
// memory back once the process has started.
func Keep(ctx context.Context) {
	debug.SetGCPercent(garbage)
	go func() {
		timer := time.NewTimer(settled)
		defer timer.Stop()
		select {
		case <-timer.C:
			giveBack()
		case <-ctx.Done():
		}
	}()
}

// giveBack returns the free heap to the kernel, and unmaps the pages of this
// program's file. The kernel maps pages again, from its page cache, when they
// are used; pages that only the start used stay unmapped. A step that fails
// leaves the memory as it was.
func giveBack() {
	debug.FreeOSMemory()
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		var from, to uintptr
		var access string
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x %s", &from, &to, &access); err != nil {
			continue
		}
		// Pages that can be written hold this process's own data.
		if strings.HasPrefix(access, "r-") && strings.HasSuffix(access, "p") && strings.HasSuffix(lines.Text(), " "+self) {
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED)
		}
	}
}
