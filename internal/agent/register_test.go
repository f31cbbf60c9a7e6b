package agent

import (
	"reflect"
	"testing"
)

// pinned is an event that only this test defines. No other file knows it.
type pinned struct {
	Goal string `json:"goal"`
}

var _ = register(&pinned{})

func (*pinned) Kind() string { return "test.pinned" }

func (*pinned) housekeeping() {}

func (b *pinned) fold(s *State, _ Event) { s.Judging.Goal = b.Goal }

// TestOneRegistration checks that a new event needs only its own file: once
// registered, it is decoded, folded, and listed by Kinds.
func TestOneRegistration(t *testing.T) {
	kind, data, err := Encode(&pinned{Goal: "g"})
	if err != nil {
		t.Fatal(err)
	}
	body, err := Decode(kind, data)
	if err != nil {
		t.Fatal(err)
	}
	e := Event{Seq: 1, Body: body}
	if s := Fold("bc-1", []Event{e}); s.Judging.Goal != "g" || !e.Housekeeping() {
		t.Errorf("the goal is %q, housekeeping %v", s.Judging.Goal, e.Housekeeping())
	}
	if got := Kinds()[kind]; got != reflect.TypeFor[pinned]() {
		t.Errorf("Kinds has %v for %s", got, kind)
	}
	defer func() {
		if recover() == nil {
			t.Error("a kind was registered twice")
		}
	}()
	register(&pinned{})
}
