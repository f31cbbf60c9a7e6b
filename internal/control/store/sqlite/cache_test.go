package sqlite

import (
	"errors"
	"testing"

	"aloft/internal/account"
	"aloft/internal/control/store"
)

// TestCachedRowsAreNeverStale changes rows that were read before.
func TestCachedRowsAreNeverStale(t *testing.T) {
	s := openTest(t, t.TempDir())
	ctx := t.Context()
	if _, err := s.AddUser(ctx, account.User{Email: "owner@example.com", Role: account.Owner}); err != nil {
		t.Fatal(err)
	}
	u, err := s.AddUser(ctx, account.User{Email: "a@example.com"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Rule(ctx, store.TeamRules, "run-mode"); err != nil || got != "" {
		t.Errorf("a rule that nobody has set is %q, %v", got, err)
	}
	for _, text := range []string{"one", "two"} {
		if err := s.SetRule(ctx, store.TeamRules, "run-mode", text); err != nil {
			t.Fatal(err)
		}
		for range 2 { // from the database, then from the cache
			if got, err := s.Rule(ctx, store.TeamRules, "run-mode"); err != nil || got != text {
				t.Errorf("the rule is %q, %v; want %q", got, err, text)
			}
		}
	}
	for _, disabled := range []bool{false, true, false} {
		if _, err := s.UpdateUser(ctx, u.ID, func(u *account.User) error { u.Disabled = disabled; return nil }); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if got, err := s.User(ctx, u.ID); err != nil || got.Disabled != disabled {
				t.Errorf("the user is %+v, %v; want disabled %v", got, err, disabled)
			}
		}
	}
	if _, err := s.User(ctx, u.ID+1); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a user that does not exist: %v", err)
	}
	added, err := s.AddUser(ctx, account.User{Email: "b@example.com"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.User(ctx, added.ID); err != nil || got != added {
		t.Errorf("an added user is %+v, %v; want %+v", got, err, added)
	}
}

// TestCacheForgetsWhatWasReadBeforeAChange has a change occur between get's
// read of the database and its return.
func TestCacheForgetsWhatWasReadBeforeAChange(t *testing.T) {
	var c cache[string, int]
	read := func(v int, changed bool) func() (int, error) {
		return func() (int, error) {
			if changed {
				c.clear()
			}
			return v, nil
		}
	}
	for _, step := range []struct {
		read    int
		changed bool
		want    int
	}{{1, true, 1}, {2, false, 2}, {3, false, 2}} {
		if got, err := c.get("k", read(step.read, step.changed)); err != nil || got != step.want {
			t.Errorf("%+v: got %d, %v", step, got, err)
		}
	}
	c.clear()
	wrong := errors.New("no")
	if _, err := c.get("k", func() (int, error) { return 0, wrong }); !errors.Is(err, wrong) {
		t.Errorf("got %v", err)
	}
	if got, err := c.get("k", read(4, false)); err != nil || got != 4 {
		t.Errorf("after an error: %d, %v", got, err)
	}
	for i := range maxCached + 1 {
		if _, err := c.get(string(rune(i)), read(i, false)); err != nil {
			t.Fatal(err)
		}
		if len(c.values) > maxCached {
			t.Fatalf("%d values are cached", len(c.values))
		}
	}
}
