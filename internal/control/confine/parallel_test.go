package confine

import (
	"bytes"
	"os"
	"os/exec"
	"sync"
	"testing"
)

// TestManyAtOnce starts programs in parallel. A goroutine that sets up a jail
// must not disturb another goroutine, whose child briefly inherits its open
// files.
func TestManyAtOnce(t *testing.T) {
	const parallel, each = 40, 20
	h := host(t)
	before := mainNamespace(t)
	var all sync.WaitGroup
	for range parallel {
		all.Go(func() {
			for range each {
				var stderr bytes.Buffer
				cmd := exec.Command("git", "version")
				cmd.Stderr = &stderr
				release, err := h.Start(cmd, Jail{User: FirstUser + 5})
				if err != nil {
					t.Error(err)
					continue
				}
				if err := cmd.Wait(); err != nil {
					t.Errorf("%v: %s", err, stderr.String())
				}
				release()
			}
		})
	}
	all.Wait()
	if after := mainNamespace(t); after != before {
		t.Errorf("the main thread was in the mount namespace %s and is in %s", before, after)
	}
}

// mainNamespace returns the mount namespace of the main thread.
func mainNamespace(t *testing.T) string {
	t.Helper()
	name, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		t.Fatal(err)
	}
	return name
}
