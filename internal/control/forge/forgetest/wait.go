package forgetest

import (
	"testing"
	"time"
)

// eventually waits until done returns true, because hosts do some work
// asynchronously. It fails the test after a timeout.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatalf("the test ended before %s", what)
		}
		if at, ok := t.Deadline(); ok && time.Until(at) < 10*time.Second {
			t.Fatalf("there is not %s", what)
		}
	}
}
