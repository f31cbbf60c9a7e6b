package e2e

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite" // registers the driver

	"aloft/internal/control/gateway/gittest"
)

// A server restarts after a crash with its clock a day ahead or behind, as on a
// computer whose clock battery is empty. Its leases have long expired or are
// valid for another day, and the journal's events are from yesterday or
// tomorrow. The run continues, nothing runs twice, and the journal's times
// never decrease.
func TestTheClockJumps(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	url := git.Repo("clock", map[string]string{"README.md": "clock\n"})
	a := start(t, scripted(t, crashScript))
	for name, jump := range map[string]time.Duration{"Ahead": 24 * time.Hour, "Back": -24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			r := a.create(url, "Write one line", nil)
			seen := &watcher{t: t}
			a.stream(r, "", func(f frame) bool {
				seen.take(f)
				return !output("tick 3")(f, seen.text)
			})
			a.Kill()
			a.clock(jump)
			a.Start()
			r = a.finish(r)
			if got := gittest.Git(t, git.Path("clock"), "show", pushed(t, r)+":ran.txt"); got != "ran" {
				t.Errorf("the command ran %d times", strings.Count(got, "ran"))
			}
			db := a.database()
			defer db.Close()
			var events, back int
			err := db.QueryRowContext(t.Context(), `SELECT count(*), count(*) FILTER (WHERE time < before) FROM
				(SELECT time, lag(time, 1, 0) OVER (ORDER BY seq) AS before FROM events WHERE agent_id = ?)`, r.AgentID).Scan(&events, &back)
			if err != nil || events == 0 || back > 0 {
				t.Errorf("of %d events %d are before the one before them: %v", events, back, err)
			}
		})
	}
}

// clock simulates a clock jump by changing the stored times. The server notices
// it at its next start.
func (a *aloft) clock(jump time.Duration) {
	a.t.Helper()
	db := a.database()
	defer db.Close()
	for table, columns := range map[string][]string{
		"events": {"time"}, "agents": {"created_at", "updated_at"}, "leases": {"until"},
		"runs": {"created_at", "updated_at", "started_at", "ended_at"},
	} {
		for _, c := range columns {
			if _, err := db.ExecContext(a.t.Context(), "UPDATE "+table+" SET "+c+" = "+c+" - ? WHERE "+c+" > 0", jump.Nanoseconds()); err != nil {
				a.t.Fatal(err)
			}
		}
	}
}

// database opens the server's store. Callers may read at any time, but write
// only while the server is down.
func (a *aloft) database() *sql.DB {
	a.t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(a.Data, "aloft.db")+"?_pragma=busy_timeout(10000)")
	if err != nil {
		a.t.Fatal(err)
	}
	return db
}
