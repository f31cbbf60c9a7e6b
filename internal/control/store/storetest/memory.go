package storetest

import (
	"reflect"
	"testing"
	"time"

	"aloft/internal/control/store"
	"aloft/internal/memory"
)

var memoryTests = []test{
	{"MemoryIsStoredAndListed", testMemory},
	{"MemoryIsChangedOnlyAtItsRevision", testMemoryRevision},
}

// aMemory returns a memory of a repository, created at the given second.
func aMemory(id, repo string, second int64) memory.Memory {
	at := time.Unix(second, 0).UTC()
	return memory.Memory{ID: id, Repo: repo, Title: "Build", Text: "make build", Author: memory.Author{AgentID: "bc-1", RunID: "run-1"}, CreatedAt: at, UpdatedAt: at}
}

func addMemory(t *testing.T, s Store, m memory.Memory) memory.Memory {
	t.Helper()
	if err := s.AddMemory(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	m.Revision = 1
	return m
}

func testMemory(t *testing.T, s Store) {
	late := addMemory(t, s, aMemory("mem-1", "git.example.com/acme/widget", 20))
	early := addMemory(t, s, aMemory("mem-2", "git.example.com/acme/widget", 10))
	other := addMemory(t, s, aMemory("mem-3", "git.example.com/acme/other", 5))
	wantError(t, "add it twice", s.AddMemory(t.Context(), late), store.ErrExists)
	for repo, want := range map[string][]memory.Memory{
		"git.example.com/acme/widget": {early, late}, "git.example.com/acme/other": {other}, "git.example.com/acme/wid": {},
	} {
		if got, err := s.ListMemories(t.Context(), repo); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; want %+v", repo, got, err, want)
		}
	}
	if repos, err := s.MemoryRepos(t.Context()); err != nil || !reflect.DeepEqual(repos, []string{"git.example.com/acme/other", "git.example.com/acme/widget"}) {
		t.Errorf("repositories %q, %v", repos, err)
	}
	if got, err := s.Memory(t.Context(), "mem-3"); err != nil || !reflect.DeepEqual(got, other) {
		t.Errorf("got %+v, %v; want %+v", got, err, other)
	}
	_, err := s.Memory(t.Context(), "mem-4")
	wantError(t, "read what does not exist", err, store.ErrNotFound)
}

func testMemoryRevision(t *testing.T, s Store) {
	m := addMemory(t, s, aMemory("mem-1", "git.example.com/acme/widget", 20))
	stale := m
	m.Text = "make all"
	if err := s.PutMemory(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	stale.Text = "make nothing"
	wantError(t, "change an old revision", s.PutMemory(t.Context(), stale), store.ErrMoved)
	wantError(t, "delete an old revision", s.DeleteMemory(t.Context(), m.ID, 1), store.ErrMoved)
	m.Revision = 2
	if got, err := s.Memory(t.Context(), m.ID); err != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("got %+v, %v; want %+v", got, err, m)
	}
	if err := s.DeleteMemory(t.Context(), m.ID, 2); err != nil {
		t.Fatal(err)
	}
	wantError(t, "delete it twice", s.DeleteMemory(t.Context(), m.ID, 2), store.ErrNotFound)
	wantError(t, "change a deleted one", s.PutMemory(t.Context(), m), store.ErrNotFound)
}
