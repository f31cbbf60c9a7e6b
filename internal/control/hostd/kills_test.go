package hostd

import (
	"testing"
	"time"

	"aloft/internal/control/cgroup"
)

// TestQuiet checks when the server asks the host-daemon for a machine's OOM
// kills.
func TestQuiet(t *testing.T) {
	now, host, asked, more := time.Unix(1000, 0), 5, 0, false
	q := &quiet{host: func() (int, bool) { return host, true }, now: func() time.Time { return now }}
	check := func(what string, known int, wantAsked, want bool) {
		t.Helper()
		before := asked
		got := q.ask("m", known, func() bool { asked++; return more })
		if got != want || (asked > before) != wantAsked {
			t.Errorf("%s: %v, asked %v; want %v, %v", what, got, asked > before, want, wantAsked)
		}
	}
	check("at first", 0, true, false)
	check("within the time in which a kill may not be counted yet", 0, true, false)
	now = now.Add(cgroup.SettleTime + 1)
	check("after it", 0, true, false)
	check("from then on", 0, false, false)
	check("for one who knows of more", 1, false, false)
	host, more = 6, true
	check("after a kill on the host", 0, true, true)
	check("again, for one who does not know of it", 0, true, true)
	more = false
	check("for one who does", 1, true, false)
	now = now.Add(cgroup.SettleTime + 1)
	check("after the time", 1, true, false)
	check("from then on", 1, false, false)
	check("for one who knows of less, such as after a restart", 0, true, false)
	q.host = func() (int, bool) { return 0, false }
	now = now.Add(time.Hour)
	check("on a kernel that does not count", 0, true, false)
	check("on a kernel that does not count, again", 0, true, false)
}

// TestQuietFromTheStart checks that the server asks about a machine once even if the
// host had no kills before.
func TestQuietFromTheStart(t *testing.T) {
	now, asked := time.Unix(1000, 0), 0
	q := &quiet{host: func() (int, bool) { return 5, true }, now: func() time.Time { return now }}
	q.watch()
	now = now.Add(cgroup.SettleTime + 1)
	for range 3 {
		if q.ask("m", 0, func() bool { asked++; return false }) {
			t.Error("a quiet machine had kills")
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}
