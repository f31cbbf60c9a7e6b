package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"aloft/internal/control/store"
	"aloft/internal/environment"
)

var environmentTests = []test{{"EnvironmentsAndTheirHistory", testEnvironments}}

func testEnvironments(t *testing.T, s Store) {
	at := time.Date(2030, 1, 2, 3, 4, 0, 0, time.UTC)
	own := environment.Saved{ID: "env-1", UserID: 1, Name: "own", Repos: []string{"https://h/o/r"}, Text: "{}", VersionID: "v1", CreatedAt: at, UpdatedAt: at}
	team, others := own, own
	team.ID, team.Team, team.UserID, team.CreatedAt = "env-2", true, 2, at.Add(time.Second)
	others.ID, others.UserID = "env-3", 2
	put := func(e environment.Saved) {
		t.Helper()
		if err := s.PutEnvironment(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	put(own)
	put(team)
	put(others)
	list, err := s.ListEnvironments(t.Context(), 1, store.Page{Limit: 10})
	if d := cmp.Diff([]environment.Saved{team, own}, list); d != "" || err != nil {
		t.Errorf("%v %s", err, d)
	}
	own.Name = "renamed" // the same version
	put(own)
	own.VersionID, own.Text, own.UpdatedAt = "v2", `{"install": "x"}`, at.Add(time.Minute)
	put(own)
	if got, err := s.Environment(t.Context(), "env-1"); err != nil || !cmp.Equal(got, own) {
		t.Errorf("%+v, %v", got, err)
	}
	history, err := s.EnvironmentHistory(t.Context(), "env-1", store.Page{Limit: 10})
	want := []environment.Version{{ID: "v2", Text: own.Text, UserID: 1, CreatedAt: own.UpdatedAt}, {ID: "v1", Text: "{}", UserID: 1, CreatedAt: at}}
	if d := cmp.Diff(want, history); d != "" || err != nil {
		t.Errorf("%v %s", err, d)
	}
	if err := s.DeleteEnvironment(t.Context(), "env-1"); err != nil {
		t.Error(err)
	}
	wantError(t, "delete again", s.DeleteEnvironment(t.Context(), "env-1"), store.ErrNotFound)
	_, err = s.Environment(t.Context(), "env-1")
	wantError(t, "read what is gone", err, store.ErrNotFound)
}
