package gateway_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"aloft/internal/control/gateway"
)

// TestLargePushesAreUnpackedTwoAtATime pushes while the server unpacks one large
// push of another agent, and then two. With two, the server must refuse a large push
// but accept a small one.
func TestLargePushesAreUnpackedTwoAtATime(t *testing.T) {
	w := newWorld(t)
	gateway.SetPushWait(w.gw, 50*time.Millisecond)
	m, _ := checkedOut(t, w)
	endOne := gateway.HoldLargePush(w.gw)
	m.commit("r", "large", map[string]string{"a.txt": noise(2 << 20)})
	m.git("r", "push", "origin", branch)
	endTwo := gateway.HoldLargePush(w.gw)
	m.commit("r", "small", map[string]string{"b.txt": "two\n"})
	m.git("r", "push", "origin", branch)
	id := m.commit("r", "large again", map[string]string{"c.txt": noise(2<<20 + 1)})
	m.fails("r", []string{"push", "origin", branch}, "(push_busy)", "the server is busy with the pushes of other agents", "push again in a few minutes")
	leftInQuarantine(t, w)
	endOne()
	m.git("r", "push", "origin", branch)
	if got := w.Branch("r", branch); got != id {
		t.Errorf("upstream has %q, want %s", got, id)
	}
	endTwo()
}

// TestPushesAreCounted pushes, and checks what is counted while git unpacks the push.
func TestPushesAreCounted(t *testing.T) {
	var held, released []string
	w := newWorld(t, func(w *world) {
		w.cfg.Hold = func(agentID string, bytes int64) (release func()) {
			what := fmt.Sprintf("%s: %d", agentID, bytes>>30)
			held = append(held, what)
			return func() { released = append(released, what) }
		}
	})
	m, _ := checkedOut(t, w)
	m.commit("r", "small", map[string]string{"b.txt": "two\n"})
	m.git("r", "push", "origin", branch)
	m.commit("r", "large", map[string]string{"c.txt": noise(2 << 20)})
	m.git("r", "push", "origin", branch)
	want := []string{"bc-1: 1", "bc-1: 4"} // GiB
	if !slices.Equal(held, want) || !slices.Equal(released, want) {
		t.Errorf("counted %v, and released %v; want %v", held, released, want)
	}
}

// TestLargePushNeedsRoom pushes while the disk is nearly full.
func TestLargePushNeedsRoom(t *testing.T) {
	full := false
	w := newWorld(t, func(w *world) {
		w.cfg.Room = func() error {
			if full {
				return errors.New("the disk is nearly full")
			}
			return nil
		}
	})
	m, _ := checkedOut(t, w)
	full = true
	m.commit("r", "small", map[string]string{"b.txt": "two\n"})
	m.git("r", "push", "origin", branch)
	id := m.commit("r", "large", map[string]string{"c.txt": noise(2 << 20)})
	m.fails("r", []string{"push", "origin", branch}, "(disk_full)", "the server's disk is nearly full, so it takes no push above 1 MiB", "free space")
	leftInQuarantine(t, w)
	full = false
	m.git("r", "push", "origin", branch)
	if got := w.Branch("r", branch); got != id {
		t.Errorf("upstream has %q, want %s", got, id)
	}
}
