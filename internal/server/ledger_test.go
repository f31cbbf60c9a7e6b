package server

import (
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/fleet"
	"aloft/internal/control/ledger"
	"aloft/internal/control/machine"
	"aloft/internal/control/store"
	"aloft/internal/control/store/sqlite"
	"aloft/internal/fault"
)

// TestBlame checks that the reason for stopping a machine contains the owner's
// total usage, and keeps its code and cause.
func TestBlame(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "aloft.db"), quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	s := &Server{ledger: ledger.New(quiet, ledger.Journals{Store: db})}
	var ids []string
	head := int64(0)
	for range 2 {
		id := agent.NewID()
		ids = append(ids, id)
		if _, err := db.Append(t.Context(), store.Append{AgentID: id, IfHead: &head, Events: []agent.Event{{Body: &agent.Created{Name: strings.Repeat("x", 1<<20), UserID: 7}}}}); err != nil {
			t.Fatal(err)
		}
	}
	over := machine.DiskLimitError{Used: 2, Limit: 1}
	why := fault.Exhausted("%v", over).Named("disk_limit").Because(over).Hint("send a follow-up")
	if got := s.blame(fleet.NewID(ids[0]), why); got.Error() != why.Error() {
		t.Errorf("before the first measurement: %v", got)
	}
	if _, err := s.ledger.Rows(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	got := s.blame(fleet.NewID(ids[0]), why)
	f := fault.Of(got)
	if _, ok := errors.AsType[machine.DiskLimitError](got); !ok || f.Code != "disk_limit" || f.Advice != why.Advice || !strings.HasSuffix(f.Message, "; all that its owner has on the disk takes 2.0 MiB") {
		t.Errorf("blamed with %v", got)
	}
	if strings.Contains(why.Message, "owner") {
		t.Error("the original reason has changed")
	}
	if got := s.blame("bld-1", why); got.Error() != why.Error() {
		t.Errorf("a build is stopped with %v", got)
	}
}
