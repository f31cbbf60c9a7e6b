package ledger

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"aloft/internal/agent"
	"aloft/internal/control/layer"
	"aloft/internal/control/store"
	"aloft/internal/control/store/sqlite"
	"aloft/internal/environment"
	"aloft/internal/fault"
)

// counted is a source that counts how often its items are measured.
type counted struct {
	items    map[string]Item
	size     map[string]Size
	measured map[string]int
	fails    error
}

func (c *counted) Kind() Kind { return Machine }

func (c *counted) Items(context.Context) (all []Item, err error) {
	for id, i := range c.items {
		i.ID = id
		i.Measure = func(context.Context, Measured) (Measured, error) {
			c.measured[id]++
			return Measured{c.size[id], c.items[id].Version}, c.fails
		}
		all = append(all, i)
	}
	return all, nil
}

func newCounted() *counted {
	return &counted{items: map[string]Item{}, size: map[string]Size{}, measured: map[string]int{}}
}

// TestRowsAreMeasuredOnce checks that an item is measured when it is new, when
// its version changes and when its measurement is old. A deleted item must have
// no row.
func TestRowsAreMeasuredOnce(t *testing.T) {
	c := newCounted()
	c.items = map[string]Item{"a": {UserID: 1}, "b": {UserID: 1, Version: "1"}, "c": {UserID: 2}}
	c.size = map[string]Size{"a": {10, 1}, "b": {20, 2}, "c": {40, 4}}
	l := New(slog.New(slog.DiscardHandler), c)
	now := time.Unix(1, 0)
	l.now = func() time.Time { return now }
	sum := func(rows []Row, err error) Size {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return Sum(rows)
	}
	for range 2 {
		if got := sum(l.Rows(t.Context(), 1)); got != (Size{30, 3}) {
			t.Errorf("user 1 uses %v", got)
		}
	}
	if diff := cmp.Diff(map[string]int{"a": 1, "b": 1}, c.measured); diff != "" {
		t.Errorf("measured (-want +got):\n%s", diff)
	}
	sum(l.RowsNow(t.Context(), 0))
	if diff := cmp.Diff(map[string]int{"a": 2, "b": 1, "c": 1}, c.measured); diff != "" {
		t.Errorf("measured now (-want +got):\n%s", diff)
	}
	now = now.Add(maxAge)
	c.items["b"] = Item{UserID: 1, Version: "2"}
	if err := l.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int{"a": 3, "b": 2, "c": 2}, c.measured); diff != "" {
		t.Errorf("measured later (-want +got):\n%s", diff)
	}
	delete(c.items, "a")
	if rows, err := l.Rows(t.Context(), 1); err != nil || len(rows) != 1 || rows[0].ID != "b" {
		t.Errorf("after a is gone: %v, %v", rows, err)
	}
	if err := l.refresh(t.Context()); err != nil || len(l.measured) != 2 {
		t.Errorf("%d measurements are kept, %v", len(l.measured), err)
	}
	// If a measurement fails, the previous one stays.
	c.fails = errors.New("unreadable")
	if rows, err := l.RowsNow(t.Context(), 2); !errors.Is(err, c.fails) || Sum(rows) != (Size{40, 4}) {
		t.Errorf("after a failure: %v, %v", rows, err)
	}
}

// TestQuota checks that a person over the quota is refused with a message that
// names what they can delete, and is accepted again after the deletion.
func TestQuota(t *testing.T) {
	c := newCounted()
	c.items = map[string]Item{"m": {UserID: 1, AgentID: "bc-1"}, "n": {UserID: 1, AgentID: "bc-2"}, "o": {UserID: 2}}
	c.size = map[string]Size{"m": {3 << 30, 10}, "n": {1 << 20, 10}, "o": {1 << 20, 1}}
	q := Quota{Ledger: New(slog.New(slog.DiscardHandler), c), Limit: Size{Bytes: 2 << 30}, Logger: slog.New(slog.DiscardHandler)}
	f := fault.Of(q.MayUseMore(t.Context(), 1))
	if f == nil || f.Code != "usage_limit_exceeded" || !strings.Contains(f.Message, "3.0 GiB of 2.0 GiB are used; largest: machine of agent bc-1 (3.0 GiB)") ||
		!strings.Contains(f.Advice, "`aloft agent delete bc-1`") || !strings.Contains(f.Advice, "quotas.disk_bytes") {
		t.Errorf("refused with %+v", f)
	}
	if err := q.MayUseMore(t.Context(), 2); err != nil {
		t.Errorf("another person: %v", err)
	}
	c.size["m"] = Size{1 << 20, 10} // space was freed in the machine
	if err := q.MayUseMore(t.Context(), 1); err != nil {
		t.Errorf("after cleaning up: %v", err)
	}
	q.Limit = Size{Inodes: 19}
	if f := fault.Of(q.MayUseMore(t.Context(), 1)); f == nil || !strings.Contains(f.Message, "20 of 19 inodes") || !strings.Contains(f.Advice, "quotas.disk_inodes") {
		t.Errorf("refused with %+v", f)
	}
	delete(c.items, "m")
	if err := q.MayUseMore(t.Context(), 1); err != nil {
		t.Errorf("after deleting: %v", err)
	}
}

// TestFolderSize compares folderSize with du.
func TestFolderSize(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, "big"), make([]byte, 1<<20), 0o600), os.Link(filepath.Join(dir, "big"), filepath.Join(dir, "again")),
		os.Mkdir(filepath.Join(dir, "d"), 0o700), os.WriteFile(filepath.Join(dir, "d", "small"), []byte("x"), 0o600), os.Symlink("/", filepath.Join(dir, "out")),
	); err != nil {
		t.Fatal(err)
	}
	got, err := folderSize(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for flag, have := range map[string]int64{"--block-size=1": got.Bytes, "--inodes": got.Inodes} {
		out, err := exec.Command("du", "-s", flag, dir).Output()
		if err != nil {
			t.Fatal(err)
		}
		if want := strings.Fields(string(out))[0]; strconv.FormatInt(have, 10) != want {
			t.Errorf("du -s %s: %s, have %d", flag, want, have)
		}
	}
}

func openStore(t *testing.T) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "aloft.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func add(t *testing.T, s store.Journal, id string, head int64, body agent.Body) {
	t.Helper()
	if _, err := s.Append(t.Context(), store.Append{AgentID: id, IfHead: &head, Events: []agent.Event{{Body: body}}}); err != nil {
		t.Fatal(err)
	}
}

// TestJournalsAddUp checks that a journal measured in parts has the size of the
// whole journal.
func TestJournalsAddUp(t *testing.T) {
	s := openStore(t)
	id := agent.NewID()
	add(t, s, id, 0, &agent.Created{Name: "a", UserID: 7})
	l := New(slog.New(slog.DiscardHandler), Journals{s})
	for head := int64(1); head < 4; head++ {
		rows, err := l.RowsNow(t.Context(), 7)
		whole, _, wholeErr := s.JournalBytes(t.Context(), id, 0)
		if err != nil || wholeErr != nil || len(rows) != 1 || rows[0].Bytes != whole || rows[0].AgentID != id {
			t.Errorf("at event %d: %+v, the whole has %d bytes; %v, %v", head, rows, whole, err, wholeErr)
		}
		add(t, s, id, head, &agent.Archived{Archived: head%2 == 1})
	}
}

// TestOutside checks that the size of an agent's files outside its machine is measured
// on request, even while the store does not answer.
func TestOutside(t *testing.T) {
	logs, artifacts, mirrors, s := t.TempDir(), t.TempDir(), t.TempDir(), openStore(t)
	write := func(dir, name string, n int) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(logs, "a", 1<<20)
	write(mirrors, "a", 1<<20) // the server's
	l := New(slog.New(slog.DiscardHandler), Folders{Of: Log, In: Dir(logs), Store: s}, Folders{Of: Artifacts, In: Dir(artifacts), Store: s}, Folders{Of: Mirror, In: Dir(mirrors)})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	check := func(fresh bool, want int64) {
		t.Helper()
		if got := l.Outside(t.Context(), "a", fresh); got != want {
			t.Errorf("fresh %v: %d bytes, want %d", fresh, got, want)
		}
	}
	check(false, 0)
	check(true, 1<<20)
	write(artifacts, "a", 2<<20)
	check(false, 1<<20)
	check(true, 3<<20)
	check(false, 3<<20)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	write(artifacts, "a", 4<<20)
	if got := l.Outside(gone, "a", true); got != 3<<20 {
		t.Errorf("what cannot be measured: %d bytes", got)
	}
}

// TestLayersBelongTo checks who owns the layers of each kind.
func TestLayersBelongTo(t *testing.T) {
	id := layer.NewID
	at := time.Unix(0, 0)
	snapshot, below, build, fork, shared, awaited, nobodys := id(layer.Snapshot), id(layer.Snapshot), id(layer.Build), id(layer.Fork), id(layer.Fork), id(layer.Fork), id(layer.Snapshot)
	needs := []layer.Need{
		{Layer: layer.Layer{ID: below, Created: at}}, // no longer kept
		{Layer: layer.Layer{ID: snapshot, Parent: below, Created: at.Add(1), Kept: true}, Machines: []string{"m-young"}},
		{Layer: layer.Layer{ID: build, Created: at, Kept: true}, Machines: []string{"m-young"}},
		{Layer: layer.Layer{ID: fork, Created: at}, Machines: []string{"m-young"}},
		{Layer: layer.Layer{ID: shared, Created: at}, Machines: []string{"m-young", "m-old", "m-gone"}},
		{Layer: layer.Layer{ID: awaited, Created: at}},
		{Layer: layer.Layer{ID: nobodys, Created: at}, Machines: []string{"m-gone"}},
	}
	s := Layers{AgentOf: func(m string) (string, bool) { return strings.CutPrefix(m, "m-") }}
	got := map[string]Item{}
	for _, i := range s.attribute(needs, []store.Owner{{AgentID: "old", UserID: 1}, {AgentID: "young", UserID: 2, Layer: awaited}}, []environment.Snapshot{{ID: snapshot, UserID: 3}}) {
		got[i.ID] = Item{AgentID: i.AgentID, UserID: i.UserID}
	}
	want := map[string]Item{
		snapshot: {UserID: 3}, below: {UserID: 3}, build: {}, fork: {AgentID: "young", UserID: 2}, shared: {AgentID: "old", UserID: 1},
		awaited: {AgentID: "young", UserID: 2}, nobodys: {},
	}
	for id := range want {
		if w, g := want[id], got[id]; g.AgentID != w.AgentID || g.UserID != w.UserID {
			t.Errorf("%s belongs to agent %q of user %d; want %q, %d", id, g.AgentID, g.UserID, w.AgentID, w.UserID)
		}
	}
}
