package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"aloft/internal/control/store"
	"aloft/internal/environment"
)

var buildTests = []test{
	{"BuildIsKeptAsItWas", testBuild},
	{"BuildBecomesActiveWithItsEnd", testActiveBuild},
	{"BuildsAreListedNewestFirst", testListBuilds},
	{"BuildIsDeleted", testDeleteBuild},
}

func record(id, env string, at int) environment.Record {
	code := 7
	return environment.Record{
		ID: id, EnvironmentID: env, Status: environment.InProgress, Trigger: environment.Manual, ExitCode: &code,
		Commits: []environment.Commit{{URL: "https://example.com/r", Commit: "c0de"}}, MachineID: "m-1",
		CreatedAt: time.Date(2030, 1, 2, 3, 4, at, 0, time.UTC),
	}
}

func testBuild(t *testing.T, s Store) {
	b := record("bld-1", "env-1", 1)
	if err := s.AddBuild(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	wantError(t, "the same again", s.AddBuild(t.Context(), b), store.ErrExists)
	wantError(t, "update what is not there", s.UpdateBuild(t.Context(), record("bld-9", "env-1", 1), true), store.ErrNotFound)
	got, err := s.Build(t.Context(), "bld-1")
	if d := cmp.Diff(b, got); d != "" || err != nil {
		t.Errorf("%v %s", err, d)
	}
	_, err = s.Build(t.Context(), "bld-9")
	wantError(t, "read what is not there", err, store.ErrNotFound)
}

func testActiveBuild(t *testing.T, s Store) {
	_, err := s.ActiveBuild(t.Context(), "env-1")
	wantError(t, "before there is one", err, store.ErrNotFound)
	first, second, other := record("bld-1", "env-1", 1), record("bld-2", "env-1", 2), record("bld-3", "env-2", 3)
	for _, b := range []environment.Record{first, second, other} {
		if err := s.AddBuild(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	open := func(want ...environment.Record) {
		t.Helper()
		if got, err := s.OpenBuilds(t.Context()); err != nil || !cmp.Equal(got, want) {
			t.Errorf("open builds: %v, %v", got, err)
		}
	}
	open(first, second, other)
	end := func(b environment.Record, status environment.Status) environment.Record {
		t.Helper()
		b.Status = status
		if err := s.UpdateBuild(t.Context(), b, status == environment.Succeeded); err != nil {
			t.Fatal(err)
		}
		return b
	}
	first = end(first, environment.Succeeded)
	end(second, environment.Failed) // a failed build never becomes active
	open(other)
	if got, err := s.ActiveBuild(t.Context(), "env-1"); err != nil || !cmp.Equal(got, first) {
		t.Errorf("active is %v, %v", got, err)
	}
	second = end(second, environment.Succeeded)
	other = end(other, environment.Succeeded)
	if got, err := s.ActiveBuilds(t.Context()); err != nil || !cmp.Equal(got, []environment.Record{second, other}) {
		t.Errorf("active are %v, %v", got, err)
	}
}

func testListBuilds(t *testing.T, s Store) {
	var want []environment.Record
	for i, id := range []string{"bld-c", "bld-a", "bld-b"} {
		b := record(id, "env-1", min(i, 1)) // two builds have the same time
		if err := s.AddBuild(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		want = append(want, b)
	}
	if err := s.AddBuild(t.Context(), record("bld-x", "env-2", 0)); err != nil {
		t.Fatal(err)
	}
	want = []environment.Record{want[2], want[1], want[0]}
	var got []environment.Record
	for page := (store.Page{Limit: 1}); ; {
		list, err := s.ListBuilds(t.Context(), "env-1", page)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 0 {
			break
		}
		got = append(got, list...)
		page.BeforeTime, page.BeforeID = list[0].CreatedAt, list[0].ID
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if all, err := s.ListBuilds(t.Context(), "", store.Page{Limit: 10}); err != nil || len(all) != 4 {
		t.Errorf("all: %v, %v", all, err)
	}
}

func testDeleteBuild(t *testing.T, s Store) {
	wantError(t, "delete what is not there", s.DeleteBuild(t.Context(), "bld-9"), store.ErrNotFound)
	for i, id := range []string{"bld-1", "bld-2"} {
		b := record(id, "env-1", i)
		if err := s.AddBuild(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		b.Status = environment.Succeeded
		if err := s.UpdateBuild(t.Context(), b, true); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.DeleteBuild(t.Context(), "bld-1"); err != nil {
		t.Fatal(err)
	}
	if got, err := s.ActiveBuild(t.Context(), "env-1"); err != nil || got.ID != "bld-2" {
		t.Errorf("active is %v, %v", got, err)
	}
	if err := s.DeleteBuild(t.Context(), "bld-2"); err != nil { // bld-2 is the active build
		t.Fatal(err)
	}
	_, err := s.ActiveBuild(t.Context(), "env-1")
	wantError(t, "read the active one", err, store.ErrNotFound)
	_, err = s.Build(t.Context(), "bld-2")
	wantError(t, "read what was deleted", err, store.ErrNotFound)
	if list, err := s.ListBuilds(t.Context(), "", store.Page{Limit: 10}); err != nil || len(list) != 0 {
		t.Errorf("there are %v, %v", list, err)
	}
}
