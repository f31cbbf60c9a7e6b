package main

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

// settled is how long after its start exec-daemon gives back the memory that only
// the start needed.
const settled = 2 * time.Second

// giveBackSettled gives memory back once, when the start is over, unless ctx ends
// before.
func giveBackSettled(ctx context.Context) {
	timer := time.NewTimer(settled)
	defer timer.Stop()
	select {
	case <-timer.C:
		giveBack()
	case <-ctx.Done():
	}
}

// giveBack gives the kernel back the heap that is free, and unmaps the pages of this
// program's file. Those that are used come back from the page cache as they are
// touched; those of the start stay away. What fails leaves the memory as it was.
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
