package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"aloft/internal/control/store"
	"aloft/internal/environment"
)

var snapshotTests = []test{
	{"AddsAndLists", func(t *testing.T, s Store) {
		old := environment.Snapshot{ID: "snapshot-1", UserID: 1, Repo: "git.example/a", AgentID: "bc-1", CreatedAt: time.Unix(1, 5).UTC()}
		young, other := old, old
		young.ID, young.UserID, young.CreatedAt = "snapshot-2", 2, time.Unix(2, 0).UTC()
		other.ID, other.Repo = "snapshot-3", "git.example/b"
		for _, n := range []environment.Snapshot{old, young, other} {
			if err := s.AddSnapshot(t.Context(), n); err != nil {
				t.Fatal(err)
			}
		}
		if held, err := s.Held(t.Context(), 1); err != nil || held != (store.Held{Snapshots: 2}) {
			t.Errorf("user 1 has %+v, %v", held, err)
		}
		if err := s.AddSnapshot(t.Context(), old); !errors.Is(err, store.ErrExists) {
			t.Errorf("again: %v", err)
		}
		got, err := s.Snapshot(t.Context(), old.ID)
		if d := cmp.Diff(old, got); err != nil || d != "" {
			t.Error(err, d)
		}
		if _, err := s.Snapshot(t.Context(), "snapshot-4"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("one that is not there: %v", err)
		}
		list, err := s.ListSnapshots(t.Context(), "git.example/a", 10)
		if d := cmp.Diff([]environment.Snapshot{young, old}, list); err != nil || d != "" {
			t.Error(err, d)
		}
		if list, err = s.ListSnapshots(t.Context(), "git.example/a", 1); err != nil || len(list) != 1 {
			t.Error(list, err)
		}
	}},
	{"IsUsedAndDeleted", func(t *testing.T, s Store) {
		n := environment.Snapshot{ID: "snapshot-1", UserID: 1, Repo: "git.example/a", AgentID: "bc-1", CreatedAt: time.Unix(1, 5).UTC()}
		if err := errors.Join(s.AddSnapshot(t.Context(), n), s.UseSnapshot(t.Context(), n.ID, time.Unix(9, 0))); err != nil {
			t.Fatal(err)
		}
		n.UsedAt, n.PublishedBy = time.Unix(9, 0).UTC(), 7
		if err := s.PublishSnapshot(t.Context(), n.ID, 7); err != nil {
			t.Error(err)
		}
		list, err := s.AllSnapshots(t.Context())
		if d := cmp.Diff([]environment.Snapshot{n}, list); err != nil || d != "" {
			t.Error(err, d)
		}
		if err := s.DeleteSnapshot(t.Context(), n.ID); err != nil {
			t.Error(err)
		}
		wantError(t, "delete again", s.DeleteSnapshot(t.Context(), n.ID), store.ErrNotFound)
		wantError(t, "publish what is gone", s.PublishSnapshot(t.Context(), n.ID, 7), store.ErrNotFound)
		wantError(t, "use what is gone", s.UseSnapshot(t.Context(), n.ID, time.Unix(9, 0)), store.ErrNotFound)
	}},
}
