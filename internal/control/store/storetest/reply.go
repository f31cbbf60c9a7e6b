package storetest

import (
	"testing"
	"time"

	"aloft/internal/control/store"

	"github.com/google/go-cmp/cmp"
)

var replyTests = []test{{"RepliesAreKeptForAWhile", testReplies}}

func testReplies(t *testing.T, s Store) {
	first := store.Reply{ID: [32]byte{1}, Request: [32]byte{2}, Sealed: []byte("first"), At: time.Unix(100, 7).UTC()}
	_, err := s.Reply(t.Context(), first.ID)
	wantError(t, "a reply that nobody kept", err, store.ErrNotFound)
	second := store.Reply{ID: [32]byte{3}, Sealed: []byte{}, At: time.Unix(200, 0).UTC()}
	for _, r := range []store.Reply{{ID: first.ID, Sealed: []byte("before")}, first, second} {
		if err := s.KeepReply(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.Reply(t.Context(), first.ID)
	if diff := cmp.Diff(first, got); err != nil || diff != "" {
		t.Errorf("reply (-want +got): %v\n%s", err, diff)
	}
	if n, err := s.ForgetReplies(t.Context(), time.Unix(150, 0)); err != nil || n != 1 {
		t.Errorf("%d are forgotten, %v; want 1", n, err)
	}
	_, err = s.Reply(t.Context(), first.ID)
	wantError(t, "a reply that was forgotten", err, store.ErrNotFound)
	if _, err := s.Reply(t.Context(), second.ID); err != nil {
		t.Error(err)
	}
}
