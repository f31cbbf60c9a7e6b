package cli

import (
	"context"
	"sync"
	"time"
)

// activity is the current activity and its start time. It is safe for concurrent use.
type activity struct {
	mu    sync.Mutex
	what  string
	since time.Time
}

// set changes the activity. If the activity is the same as before, it keeps its
// start time.
func (a *activity) set(what string, since time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.what != what {
		a.what, a.since = what, since
	}
}

func (a *activity) get() (what string, since time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.what, a.since
}

var spinner = []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")

// Animate animates the status line until ctx is done, then clears it. If the output
// cannot redraw lines, it returns at once.
func (t *Transcript) Animate(ctx context.Context) {
	if !t.out.live {
		return
	}
	defer t.out.Status("")
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case now := <-tick.C:
			t.Tick(n, now)
		case <-ctx.Done():
			return
		}
	}
}

// Tick draws the nth frame of the status line.
func (t *Transcript) Tick(n int, now time.Time) {
	what, since := t.doing.get()
	if what == "" {
		t.out.Status("")
		return
	}
	took := Took(max(now.Sub(since), 0))
	what = Line(what, max(t.out.width()-len(took)-6, 10))
	t.out.Status(t.out.Style(Cyan, string(spinner[n%len(spinner)])) + " " + what + "  " + t.out.Style(Dim, took))
}
