package storetest

import (
	"slices"
	"testing"
	"time"

	"aloft/internal/control/store"
)

var inboundTests = []test{
	{"DeliveryIsStoredOnce", testInboundOnce},
	{"EventIsClaimedOnce", testInboundClaim},
	{"EventIsReplayed", testInboundReplay},
	{"OldEventsAreTrimmed", testInboundTrim},
}

// newInbound stores an event with the delivery id, received at the given time.
func newInbound(t *testing.T, s Store, delivery string, at time.Time) store.InboundEvent {
	t.Helper()
	e := store.InboundEvent{
		ID: store.InboundID("github", "acme", delivery), Source: "github", Connection: "acme", Delivery: delivery, Kind: "issue_comment",
		ReceivedAt: at, Body: []byte(`{"delivery":"` + delivery + `"}`),
	}
	if added, err := s.AddInbound(t.Context(), e); err != nil || !added {
		t.Fatalf("added %v, %v", added, err)
	}
	return e
}

func claimInbound(t *testing.T, s Store, owner string, again time.Duration) []store.InboundEvent {
	t.Helper()
	all, err := s.ClaimInbound(t.Context(), owner, again, 10)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func listInbound(t *testing.T, s Store, state store.InboundState) []store.InboundEvent {
	t.Helper()
	all, err := s.Inbound(t.Context(), state, store.Page{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func testInboundOnce(t *testing.T, s Store) {
	at := time.Now().Add(-time.Minute)
	e := newInbound(t, s, "d1", at)
	again := e
	again.Body, again.ReceivedAt = []byte("other"), at.Add(time.Second)
	if added, err := s.AddInbound(t.Context(), again); err != nil || added {
		t.Errorf("a repeated delivery was added: %v, %v", added, err)
	}
	second := newInbound(t, s, "d2", at.Add(time.Second))
	if n, err := s.QueuedInbound(t.Context()); err != nil || n != 2 {
		t.Errorf("%d are queued, %v", n, err)
	}
	list := listInbound(t, s, "")
	if len(list) != 2 || list[0].ID != second.ID || list[1].ID != e.ID || list[1].State != store.InboundQueued || !list[1].Kept ||
		list[1].Body != nil || list[1].Size != int64(len(e.Body)) || !list[1].ReceivedAt.Equal(at.Truncate(0)) || list[1].Until.Sub(list[1].ReceivedAt) != store.HandleInboundWithin {
		t.Errorf("listed %+v", list)
	}
	page, err := s.Inbound(t.Context(), store.InboundQueued, store.Page{Limit: 10, BeforeTime: list[0].ReceivedAt, BeforeID: list[0].ID})
	if err != nil || len(page) != 1 || page[0].ID != e.ID {
		t.Errorf("second page %+v, %v", page, err)
	}
	if done := listInbound(t, s, store.InboundDone); len(done) != 0 {
		t.Errorf("done: %+v", done)
	}
}

func testInboundClaim(t *testing.T, s Store) {
	e := newInbound(t, s, "d1", time.Now())
	first := claimInbound(t, s, "a", time.Hour)
	if len(first) != 1 || string(first[0].Body) != string(e.Body) || len(claimInbound(t, s, "b", time.Hour)) != 0 {
		t.Fatalf("claimed %+v, or twice", first)
	}
	if err := s.ReleaseInbound(t.Context(), "b"); err != nil || len(claimInbound(t, s, "b", time.Hour)) != 0 {
		t.Errorf("another's claim was released: %v", err)
	}
	if err := s.ReleaseInbound(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if again := claimInbound(t, s, "b", 0); len(again) != 1 { // a claim that expires at once
		t.Fatalf("released: %+v", again)
	}
	if again := claimInbound(t, s, "c", time.Hour); len(again) != 1 {
		t.Fatalf("after the claim has expired: %+v", again)
	}
	put := first[0]
	put.State, put.Reason, put.Attempts, put.NextAt = store.InboundIgnored, "a reason", 3, time.Now().Add(time.Minute)
	wantError(t, "an attempt without a claim", s.PutInbound(t.Context(), "b", put), store.ErrNotFound)
	if err := s.PutInbound(t.Context(), "c", put); err != nil {
		t.Fatal(err)
	}
	if got := listInbound(t, s, store.InboundIgnored); len(got) != 1 || got[0].Reason != "a reason" || got[0].Attempts != 3 || !got[0].NextAt.Equal(put.NextAt) {
		t.Errorf("recorded %+v", got)
	}
	if err := s.ReleaseInbound(t.Context(), "c"); err != nil || len(claimInbound(t, s, "c", 0)) != 0 {
		t.Errorf("a handled event is due again: %v", err)
	}
}

func testInboundReplay(t *testing.T, s Store) {
	wantError(t, "an unknown event", s.ReplayInbound(t.Context(), "evt-none"), store.ErrNotFound)
	newInbound(t, s, "d1", time.Now().Add(-48*time.Hour))
	e := claimInbound(t, s, "a", time.Hour)[0]
	e.State, e.Reason, e.Attempts = store.InboundFailed, "no", 9
	if err := s.PutInbound(t.Context(), "a", e); err != nil {
		t.Fatal(err)
	}
	if err := s.ReplayInbound(t.Context(), e.ID); err != nil {
		t.Fatal(err)
	}
	again := claimInbound(t, s, "b", time.Hour)
	if len(again) != 1 || again[0].State != store.InboundQueued || again[0].Attempts != 0 || again[0].Reason != "" || !again[0].Until.After(e.Until) {
		t.Fatalf("replayed %+v", again)
	}
	if err := s.PutInbound(t.Context(), "b", e); err != nil {
		t.Fatal(err)
	}
	if err := s.TrimInbound(t.Context(), time.Now().Add(-time.Hour), time.Now().Add(-72*time.Hour), 1<<30); err != nil {
		t.Fatal(err)
	}
	if list := listInbound(t, s, ""); len(list) != 1 || list[0].Kept {
		t.Errorf("after a day: %+v", list)
	}
	wantError(t, "an event without a body", s.ReplayInbound(t.Context(), e.ID), store.ErrBodyGone)
}

func testInboundTrim(t *testing.T, s Store) {
	now := time.Now()
	names := []string{"old", "middle", "young", "queued"}
	for i, name := range names {
		newInbound(t, s, name, now.Add(time.Duration(i-9)*time.Hour))
	}
	for _, e := range claimInbound(t, s, "a", time.Hour) {
		if e.Delivery == "queued" {
			continue
		}
		e.State = store.InboundDone
		if err := s.PutInbound(t.Context(), "a", e); err != nil {
			t.Fatal(err)
		}
	}
	kept := func() (out []string) {
		for _, e := range listInbound(t, s, "") {
			if e.Kept {
				out = append(out, e.Delivery)
			}
		}
		return out
	}
	long := now.Add(-1000 * time.Hour)
	if err := s.TrimInbound(t.Context(), long, long, 25); err != nil { // one body has 20 to 21 bytes
		t.Fatal(err)
	}
	if got := kept(); !slices.Equal(got, []string{"queued", "young"}) {
		t.Errorf("after the oldest bodies were deleted: %v", got)
	}
	if err := s.TrimInbound(t.Context(), now, now, 1<<30); err != nil {
		t.Fatal(err)
	}
	if list := listInbound(t, s, ""); len(list) != 1 || list[0].Delivery != "queued" || !list[0].Kept {
		t.Errorf("after the handled events were deleted: %+v", list)
	}
}
