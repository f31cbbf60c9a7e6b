package storetest

import (
	"strings"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/store"
)

var sizeTests = []test{
	{"JournalBytes", testJournalBytes},
	{"Owners", testOwners},
}

// testJournalBytes checks that a journal can be measured in parts, and that
// other agents' events do not count.
func testJournalBytes(t *testing.T, s Store) {
	id, run := newAgent(t, s)
	other, otherRun := newAgent(t, s)
	first, head, err := s.JournalBytes(t.Context(), id, 0)
	if err != nil || head != 2 || first <= 0 {
		t.Fatalf("first: %d bytes, head %d, %v", first, head, err)
	}
	const added = 100_000
	mustAppend(t, s, store.Append{AgentID: id, Events: []agent.Event{text(run, strings.Repeat("x", added))}})
	mustAppend(t, s, store.Append{AgentID: other, Events: []agent.Event{text(otherRun, strings.Repeat("y", 3*added))}})
	more, head, err := s.JournalBytes(t.Context(), id, head)
	if err != nil || head != 3 || more < added || more > added+1000 {
		t.Errorf("more: %d bytes, head %d, %v", more, head, err)
	}
	if all, _, err := s.JournalBytes(t.Context(), id, 0); err != nil || all != first+more {
		t.Errorf("the parts have %d and %d bytes, the whole %d, %v", first, more, all, err)
	}
	if n, head, err := s.JournalBytes(t.Context(), id, head); n != 0 || head != 0 || err != nil {
		t.Errorf("after the last event: %d bytes, head %d, %v", n, head, err)
	}
}

func testOwners(t *testing.T, s Store) {
	id, _ := newAgent(t, s)
	newer := agent.NewID()
	mustAppend(t, s, store.Append{AgentID: newer, IfHead: ptr(0), Events: []agent.Event{{Body: &agent.Created{Name: "b", UserID: 7}}}})
	got, err := s.Owners(t.Context())
	if err != nil || len(got) != 2 || got[0] != (store.Owner{AgentID: id, UserID: 1, Head: 2}) || got[1] != (store.Owner{AgentID: newer, UserID: 7, Head: 1}) {
		t.Fatalf("%+v, %v", got, err)
	}
	if err := s.DeleteAgent(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if got, err = s.Owners(t.Context()); err != nil || len(got) != 1 || got[0].AgentID != newer {
		t.Errorf("after a deletion: %+v, %v", got, err)
	}
}
