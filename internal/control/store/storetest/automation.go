package storetest

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"aloft/internal/control/store"
)

var automationTests = []test{
	{"AutomationIsStored", testAutomation},
	{"AutomationIsClaimedOnce", testAutomationClaim},
	{"StartIsAddedOnce", testStartOnce},
	{"ChangeOfAStartSeesTheOthers", testStartChange},
	{"FailedChangeChangesNothing", testFailedChange},
	{"OldStartsAreTrimmed", testTrimStarts},
	{"NarrowingIsSetOnce", testNarrowing},
}

func anAutomation(id string) store.Automation {
	now := time.Now().UTC().Truncate(time.Microsecond)
	return store.Automation{
		ID: id, UserID: 3, CreatedBy: 4, Spec: json.RawMessage(`{"name":"x"}`), Version: 1, State: store.AutomationActive,
		NextAt: now, DueAt: now, CreatedAt: now, UpdatedAt: now,
	}
}

func aStart(id, of string) store.AutomationStart {
	now := time.Now().UTC().Truncate(time.Microsecond)
	return store.AutomationStart{ID: id, AutomationID: of, State: store.StartQueued, Trigger: "schedule", AgentID: "bc-" + id, CreatedAt: now, DueAt: now}
}

func addAutomation(t *testing.T, s Store, all ...store.Automation) {
	t.Helper()
	for _, a := range all {
		if err := s.AddAutomation(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
}

func addStart(t *testing.T, s Store, all ...store.AutomationStart) {
	t.Helper()
	for _, of := range all {
		if added, err := s.AddStart(t.Context(), of); err != nil || !added {
			t.Fatal(added, err)
		}
	}
}

func testAutomation(t *testing.T, s Store) {
	ctx := t.Context()
	if _, err := s.Automation(ctx, "a"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("before: %v", err)
	}
	a, b := anAutomation("a"), anAutomation("b")
	b.UserID, b.OnEvent, b.Repo, b.Path, b.CreatedAt = 5, true, "https://git.test/o/r", ".aloft/automations/b.yaml", a.CreatedAt.Add(time.Second)
	addAutomation(t, s, a, b)
	if err := s.AddAutomation(ctx, a); !errors.Is(err, store.ErrExists) {
		t.Errorf("twice: %v", err)
	}
	if got, err := s.Automation(ctx, "b"); err != nil || !reflect.DeepEqual(got, b) {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, b)
	}
	ids := func(all []store.Automation, err error) (ids string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range all {
			ids += a.ID
		}
		return ids
	}
	of := func(user int64, p store.Page) string {
		return ids(s.Automations(ctx, store.AutomationQuery{UserID: user, Page: p}))
	}
	if got := of(0, store.Page{Limit: 9}) + " " + of(3, store.Page{Limit: 9}) + " " + of(0, store.Page{Limit: 9, BeforeTime: b.CreatedAt, BeforeID: "b"}) + " " + of(0, store.Page{Limit: 1}); got != "ba a a b" {
		t.Errorf("listed %q", got)
	}
	if got := ids(s.EventAutomations(ctx)) + " " + ids(s.RepoAutomations(ctx, b.Repo)) + " " + ids(s.RepoAutomations(ctx, "other")); got != "b b " {
		t.Errorf("of events and of a repository: %q", got)
	}
	changed, err := s.ChangeAutomation(ctx, "b", func(a *store.Automation) ([]store.AutomationStart, error) {
		a.State, a.Reason = store.AutomationPaused, "because"
		return []store.AutomationStart{aStart("1", "b"), aStart("1", "b")}, nil
	})
	if err != nil || changed.Reason != "because" {
		t.Fatal(changed, err)
	}
	if got := ids(s.EventAutomations(ctx)) + ids(s.ClaimAutomations(ctx, "me", time.Hour, 9)); got != "a" {
		t.Errorf("a paused automation is started by events or its schedule: %q", got)
	}
	if all, err := s.AutomationStarts(ctx, "b", store.Page{Limit: 9}); err != nil || len(all) != 1 {
		t.Errorf("starts %+v, %v", all, err)
	}
	if err := s.DeleteAutomation(ctx, "b"); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteAutomation(ctx, "b"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("deleted twice: %v", err)
	}
	if _, err := s.AutomationStart(ctx, "1"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a start of a deleted automation: %v", err)
	}
	if _, err := s.AddStart(ctx, aStart("2", "b")); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a start is added to a deleted automation: %v", err)
	}
}

func testAutomationClaim(t *testing.T, s Store) {
	ctx := t.Context()
	later := anAutomation("later")
	later.DueAt = time.Now().Add(time.Hour)
	never := anAutomation("never")
	never.DueAt = time.Time{}
	addAutomation(t, s, anAutomation("a"), later, never)
	addStart(t, s, aStart("1", "a"))
	claim := func(owner string, again time.Duration) (n int) {
		t.Helper()
		all, err := s.ClaimAutomations(ctx, owner, again, 9)
		starts, err2 := s.ClaimStarts(ctx, owner, again, 9)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		return 10*len(all) + len(starts)
	}
	if first, second := claim("x", time.Hour), claim("y", time.Hour); first != 11 || second != 0 {
		t.Fatalf("claimed %d, then %d", first, second)
	}
	if err := s.ReleaseAutomations(ctx, "y"); err != nil {
		t.Fatal(err)
	}
	if n := claim("y", time.Hour); n != 0 {
		t.Fatalf("another server's claims are released: %d", n)
	}
	if err := s.ReleaseAutomations(ctx, "x"); err != nil {
		t.Fatal(err)
	}
	if first, second := claim("y", 0), claim("z", time.Hour); first != 11 || second != 11 {
		t.Fatalf("released: %d, expired: %d", first, second)
	}
	if _, err := s.ChangeAutomation(ctx, "a", func(*store.Automation) ([]store.AutomationStart, error) { return nil, nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ChangeStart(ctx, "1", time.Time{}, func(*store.StartChange) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if n := claim("x", time.Hour); n != 11 {
		t.Fatalf("after the change: %d", n)
	}
}

func testStartOnce(t *testing.T, s Store) {
	addAutomation(t, s, anAutomation("a"))
	first := aStart("1", "a")
	addStart(t, s, first)
	second := first
	second.Reason = "second"
	if added, err := s.AddStart(t.Context(), second); added || err != nil {
		t.Errorf("added twice: %v", err)
	}
	if got, err := s.AutomationStart(t.Context(), "1"); err != nil || !reflect.DeepEqual(got, first) {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, first)
	}
}

func testStartChange(t *testing.T, s Store) {
	ctx := t.Context()
	addAutomation(t, s, anAutomation("a"), anAutomation("b"))
	old, ended, working, waiting := aStart("0", "a"), aStart("1", "a"), aStart("2", "a"), aStart("3", "a")
	month := ended.CreatedAt
	old.CreatedAt, old.State, old.Cost = month.Add(-time.Hour), store.StartSucceeded, 1000
	ended.State, ended.Cost = store.StartFailed, 100
	working.State, working.Limit, working.Cost = store.StartRunning, 10, 3
	backlog := aStart("4", "a")
	backlog.State, backlog.DueAt = store.StartBacklog, time.Time{}
	addStart(t, s, old, ended, working, waiting, backlog, aStart("5", "b"))
	got, err := s.ChangeStart(ctx, "3", month, func(c *store.StartChange) error {
		if c.Spent != 110 || len(c.Open) != 1 || c.Open[0].ID != "2" || c.Automation.ID != "a" || c.Start.ID != "3" {
			t.Errorf("spent %d, open %+v", c.Spent, c.Open)
		}
		c.Start.State, c.Start.Reason = store.StartFailed, "no"
		c.Automation.State, c.Automation.Failures = store.AutomationPaused, 1
		return nil
	})
	if err != nil || got.Reason != "no" {
		t.Fatal(got, err)
	}
	a, err := s.Automation(ctx, "a")
	if err != nil || a.State != store.AutomationPaused || a.Failures != 1 {
		t.Errorf("automation %+v, %v", a, err)
	}
}

func testFailedChange(t *testing.T, s Store) {
	ctx := t.Context()
	addAutomation(t, s, anAutomation("a"))
	addStart(t, s, aStart("1", "a"))
	no := errors.New("no")
	_, err := s.ChangeStart(ctx, "1", time.Time{}, func(c *store.StartChange) error {
		c.Start.State, c.Automation.Failures = store.StartFailed, 9
		return no
	})
	_, err2 := s.ChangeAutomation(ctx, "a", func(a *store.Automation) ([]store.AutomationStart, error) {
		a.Failures = 9
		return []store.AutomationStart{aStart("2", "a")}, no
	})
	if !errors.Is(err, no) || !errors.Is(err2, no) {
		t.Errorf("%v, %v", err, err2)
	}
	a, _ := s.Automation(ctx, "a")
	of, _ := s.AutomationStart(ctx, "1")
	if _, err := s.AutomationStart(ctx, "2"); a.Failures != 0 || of.State != store.StartQueued || !errors.Is(err, store.ErrNotFound) {
		t.Errorf("%+v, %+v, %v", a, of, err)
	}
}

func testTrimStarts(t *testing.T, s Store) {
	addAutomation(t, s, anAutomation("a"))
	now := time.Now().UTC().Truncate(time.Microsecond)
	for state, id := range map[store.StartState]string{store.StartFailed: "old", store.StartRunning: "working", store.StartBacklog: "backlog", store.StartSucceeded: "new"} {
		of := aStart(id, "a")
		if of.State = state; id != "new" {
			of.CreatedAt = now.Add(-time.Hour)
		}
		addStart(t, s, of)
	}
	if err := s.TrimStarts(t.Context(), now.Add(-time.Minute)); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]bool{"old": false, "working": true, "backlog": true, "new": true} {
		if _, err := s.AutomationStart(t.Context(), id); (err == nil) != want {
			t.Errorf("%s: %v", id, err)
		}
	}
}

func testNarrowing(t *testing.T, s Store) {
	id, _ := newAgent(t, s)
	if got, err := s.Narrowing(t.Context(), id); got != nil || err != nil {
		t.Errorf("before: %s, %v", got, err)
	}
	for _, text := range []string{`{"a":1}`, `{"b":2}`} {
		if err := s.SetNarrowing(t.Context(), id, json.RawMessage(text)); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := s.Narrowing(t.Context(), id); string(got) != `{"a":1}` || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	if err := s.DeleteAgent(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Narrowing(t.Context(), id); got != nil || err != nil {
		t.Errorf("after the agent was deleted: %s, %v", got, err)
	}
}
