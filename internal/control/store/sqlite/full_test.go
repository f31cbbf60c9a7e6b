package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/store"
	"aloft/internal/need"
)

// TestDiskFull fills the small disk of a store. The store must contain exactly
// the acknowledged events, and continue when there is free space again.
func TestDiskFull(t *testing.T) {
	need.Root(t)
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=8m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	s := openTest(t, dir)
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 5<<20), 0o600); err != nil {
		t.Fatal(err)
	}

	const agents = 8
	heads := make([]int64, agents)
	ids := make([][2]string, agents)
	for i := range ids {
		ids[i][0], ids[i][1] = newTestAgent(t, s)
		heads[i] = 2
	}
	words := strings.Repeat("x", 10_000)
	grow := func(i int) error {
		e := agent.Event{RunID: ids[i][1], Body: &agent.TextDelta{Text: words}}
		written, err := s.Append(t.Context(), store.Append{AgentID: ids[i][0], IfHead: &heads[i], Events: []agent.Event{e, e}})
		if err == nil {
			heads[i] = written[1].Seq
		}
		return err
	}
	var wg sync.WaitGroup
	for i := range agents {
		wg.Go(func() {
			for range 1000 {
				if err := grow(i); err != nil {
					if !errors.Is(err, store.ErrFull) {
						t.Errorf("error is %v; want ErrFull", err)
					}
					return
				}
			}
			t.Error("the disk did not fill")
		})
	}
	wg.Wait()
	whole := func() {
		t.Helper()
		for i, id := range ids {
			checkWhole(t, s, id[0], heads[i])
		}
	}
	whole()
	if _, err := s.Acquire(t.Context(), "a", "one", 1); err != nil && !errors.Is(err, store.ErrFull) {
		t.Errorf("Acquire = %v; want ErrFull, or room for one more row", err)
	}

	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	for i := range agents {
		if err := grow(i); err != nil {
			t.Errorf("append with room again: %v", err)
		}
	}
	whole()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	s = openTest(t, dir)
	whole()
	if err := s.Close(); err != nil { // before the disk is unmounted
		t.Error(err)
	}
}

// checkWhole checks that the journal ends at head without gaps, and that the
// agent's row agrees.
func checkWhole(t *testing.T, s *Store, agentID string, head int64) {
	t.Helper()
	events, err := s.Read(t.Context(), agentID, 0, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if err := contiguous(events); err != nil {
		t.Error(err)
	}
	if int64(len(events)) != head {
		t.Errorf("the journal has %d events; want %d", len(events), head)
	}
	if a, err := s.Agent(t.Context(), agentID); err != nil || a.Head != head {
		t.Errorf("the agent's head is %d, %v; want %d", a.Head, err, head)
	}
}

func contiguous(events []agent.Event) error {
	for i, e := range events {
		if e.Seq != int64(i+1) {
			return fmt.Errorf("event %d has number %d", i+1, e.Seq)
		}
	}
	return nil
}
