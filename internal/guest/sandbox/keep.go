package sandbox

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// keepPause is the keeper's polling interval.
const keepPause = 500 * time.Millisecond

// Keep runs the keeper process: it waits until no process is left in a mount namespace,
// then removes the sandbox's placeholders. The placeholders are locked, and open as its
// descriptors from 3 on.
func Keep(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("no namespace given")
	}
	var h heldPlaceholders
	var late []string
	before := map[string]bool{}
	for _, a := range args[1:] {
		kind, value, _ := strings.Cut(a, "=")
		switch kind {
		case "hold":
			h = append(h, heldPlaceholder{value, os.NewFile(uintptr(3+len(h)), value)})
		case "late":
			late = append(late, value)
		case "known":
			before[value] = true
		}
	}
	for inUse(args[0]) {
		time.Sleep(keepPause)
		setAside(late, before)
	}
	setAside(late, before)
	h.release()
	return nil
}

// inUse reports whether a process is in the mount namespace.
func inUse(namespace string) bool {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return true
	}
	for _, e := range entries {
		if at, err := os.Readlink("/proc/" + e.Name() + "/ns/mnt"); err == nil && at == namespace {
			return true
		}
	}
	return false
}
