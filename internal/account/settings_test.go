package account

import (
	"testing"
	"time"
)

func TestHistory(t *testing.T) {
	at := func(h int) time.Time { return time.Date(2030, 1, 2, h, 0, 0, 0, time.UTC) }
	var h History
	if h.Now() != (Settings{}) || h.At(at(1)) != (Settings{}) {
		t.Error("nothing is settled, and something counts")
	}
	one, two, three := Settings{DefaultModel: "one"}, Settings{Privacy: true}, Settings{RetentionDays: 3}
	h = h.With(one, at(2)).With(two, at(4)).With(three, at(3)) // the last change is earlier, as if the clock had been set back
	h, err := ParseHistory(h.String())
	if err != nil {
		t.Fatal(err)
	}
	for hour, want := range map[int]Settings{1: {}, 2: one, 3: one, 4: three, 5: three} {
		if got := h.At(at(hour)); got != want {
			t.Errorf("at %d: %+v, want %+v", hour, got, want)
		}
	}
	if h.Now() != three {
		t.Errorf("now %+v", h.Now())
	}
	for range 2 * maxVersions {
		h = h.With(one, at(9))
	}
	if len(h.Versions) != maxVersions {
		t.Errorf("%d are remembered", len(h.Versions))
	}
	if _, err := ParseHistory("{"); err == nil {
		t.Error("nonsense was read")
	}
}

// A team can keep machines for a shorter time than the server does, but not
// longer.
func TestKeepMachines(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		team       int
		most, want time.Duration
	}{
		{0, 0, 0}, {0, 30 * day, 30 * day}, {7, 30 * day, 7 * day}, {7, 0, 7 * day}, {60, 30 * day, 30 * day}, {1, time.Hour, time.Hour},
	} {
		if got := (Settings{MachineDays: c.team}).KeepMachines(c.most); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

func TestRoles(t *testing.T) {
	for i, r := range Roles {
		for j, other := range Roles {
			if got := r.Covers(other); got != (i >= j) {
				t.Errorf("%s covers %s: %v", r, other, got)
			}
		}
		if got, err := ParseRole(string(r)); err != nil || got != r {
			t.Errorf("ParseRole(%s) = %s, %v", r, got, err)
		}
	}
	for _, bad := range []Role{"", "king"} {
		if bad.Covers(Viewer) || bad.Covers(bad) || Owner.Covers(bad) {
			t.Errorf("%q covers, or is covered", bad)
		}
		if _, err := ParseRole(string(bad)); err == nil {
			t.Errorf("%q is a role", bad)
		}
	}
}

func TestMaySee(t *testing.T) {
	for _, tt := range []struct {
		role Role
		of   int64
		want bool
	}{{Member, 1, true}, {Member, 2, false}, {Viewer, 2, true}, {Admin, 2, true}, {Owner, 2, true}, {"", 2, false}} {
		if got := (APIKey{UserID: 1, Role: tt.role}).MaySee(tt.of); got != tt.want {
			t.Errorf("%s of %d: %v", tt.role, tt.of, got)
		}
	}
}

// TestMemoryFor checks to which repositories the setting applies.
func TestMemoryFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ memory, repos, want string }{
		"Off":      {"", "", ""},
		"All":      {MemoryOn, "", MemoryOn},
		"Listed":   {MemoryReview, "git.test/x/y git.test/a/b", MemoryReview},
		"Folder":   {MemoryOn, "git.test/a/*", MemoryOn},
		"Unlisted": {MemoryOn, "git.test/a/bc", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := (Settings{Memory: c.memory, MemoryRepos: c.repos}).MemoryFor("git.test/a/b"); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
