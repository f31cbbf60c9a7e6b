package fleet

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/machine"
	"aloft/internal/control/store"
	"aloft/internal/control/store/sqlite"
	"aloft/internal/conversation"
)

// diary records the events that are appended to the journal of one agent.
type diary struct {
	store.Journal
	state *agent.State
	kinds []string
}

func (d *diary) Append(_ context.Context, a store.Append) ([]agent.Event, error) {
	if *a.IfHead != d.state.Agent.Head {
		return nil, store.ErrMoved
	}
	for i := range a.Events {
		e := &a.Events[i]
		e.Seq, e.Time = *a.IfHead+int64(i)+1, time.Now()
		d.kinds = append(d.kinds, e.Body.Kind())
	}
	return a.Events, nil
}

// dormitory is a runtime whose only machine exists until it is destroyed.
type dormitory struct {
	machine.Runtime
	diary *diary
	gone  bool
}

func (d *dormitory) Open(_ context.Context, id string) (machine.Machine, error) {
	return &lastBed{bed{stopped: true}, d}, nil
}

type lastBed struct {
	bed
	of *dormitory
}

func (b *lastBed) Destroy(context.Context) error {
	b.of.gone = true
	b.of.diary.kinds = append(b.of.diary.kinds, "destroyed")
	return nil
}

// TestExpiring checks that the warning comes a day before a machine is removed,
// even if it comes late. A machine that was used after a warning gets another
// one.
func TestExpiring(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		retention, unused, warned time.Duration
	}{
		{30 * day, 29*day + time.Minute, day},
		{30 * day, 300 * day, day}, // the server was down for a long time
		{day, day/2 + time.Minute, day / 2},
	} {
		t.Run(fmt.Sprint(c.retention, c.unused), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				state := fold(&agent.Created{}, &agent.RunCreated{}, &agent.MachineMade{MachineID: "m-1"}, &agent.MachineReady{MachineID: "m-1", BootID: "b-1"})
				d := &diary{state: state}
				room := &dormitory{diary: d}
				s := &Fleet{Config: Config{Journal: d, Runtime: room, Logger: slog.New(slog.DiscardHandler)}}
				look := func() {
					t.Helper()
					if err := s.expire(t.Context(), state, c.retention, c.unused); err != nil {
						t.Fatal(err)
					}
				}
				look()
				if left := time.Until(state.Expires); left < c.warned-time.Minute || left > c.warned || room.gone {
					t.Fatalf("it is removed in %s, gone %v; want %s", left, room.gone, c.warned)
				}
				state.Apply(agent.Event{Seq: state.Agent.Head + 1, Time: time.Now(), Body: &agent.MachineWoken{MachineID: "m-1", BootID: "b-2"}})
				time.Sleep(2 * c.warned) // used meanwhile, and unused again
				look()
				time.Sleep(time.Until(state.Expires) - time.Second)
				look()
				if room.gone {
					t.Fatal("it is removed before its time")
				}
				time.Sleep(2 * time.Second)
				look()
				const want = "machine.expiring machine.expiring machine.hibernated machine.expired destroyed"
				if got := strings.Join(d.kinds, " "); got != want || !room.gone || state.MachineID != "" {
					t.Errorf("gone %v, machine %q, it went: %s; want %s", room.gone, state.MachineID, got, want)
				}
			})
		})
	}
}

// wards is a runtime with the given machines, all of which sleep.
type wards struct {
	machine.Runtime
	ids []string
}

func (w *wards) List(context.Context) ([]string, error) { return w.ids, nil }

func (w *wards) Open(context.Context, string) (machine.Machine, error) {
	return &bed{stopped: true}, nil
}

// TestKeptForEach checks that only agents with a short retention period get a
// warning.
func TestKeptForEach(t *testing.T) {
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "a.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	none, room, long := int64(0), &wards{}, agent.NewID()
	for _, id := range []string{long, agent.NewID()} {
		m := id + "-0001"
		room.ids = append(room.ids, m)
		if _, err := db.Append(t.Context(), store.Append{AgentID: id, IfHead: &none, Events: []agent.Event{
			{Body: &agent.Created{Name: "a", UserID: 7}},
			{RunID: "run-" + id, Body: &agent.RunCreated{Prompt: conversation.Text(conversation.User, "do")}},
			{Body: &agent.MachineMade{MachineID: m}},
			{RunID: "run-" + id, Body: &agent.RunEnded{Status: agent.Finished}},
		}}); err != nil {
			t.Fatal(err)
		}
	}
	s := New(Config{Journal: db, Agents: db, Leases: db, Owner: db.ServerID(), Runtime: room, Logger: slog.New(slog.DiscardHandler),
		Retention: func(_ context.Context, a agent.Agent) (time.Duration, error) {
			if a.ID == long {
				return 24 * time.Hour, nil
			}
			return time.Nanosecond, nil
		}})
	s.Rest(t.Context())
	for _, m := range room.ids {
		id, _ := AgentOf(m)
		state, err := s.State(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if state.Expires.IsZero() != (id == long) {
			t.Errorf("kept long %v, and to be removed at %v", id == long, state.Expires)
		}
	}
}

// TestDeserted checks that the server waits until all users have left a
// machine, but not longer than leaveLimit.
func TestDeserted(t *testing.T) {
	for _, c := range []struct {
		name        string
		work, visit time.Duration // how long each stays
		want        time.Duration
	}{
		{"Nobody", 0, 0, 0},
		{"WorkThatEnds", time.Second, 0, time.Second},
		{"AVisitorThatLeaves", 0, 2 * time.Second, 2 * time.Second},
		{"OneAfterTheOther", time.Second, 3 * time.Second, 3 * time.Second},
		{"AVisitorThatStays", time.Second, time.Hour, leaveLimit},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(Config{})
				if c.work > 0 {
					w := s.Begin(t.Context(), "bc-1", func(error) {})
					time.AfterFunc(c.work, w.End)
				}
				if c.visit > 0 {
					l := s.machines.Use("m-1")
					time.AfterFunc(c.visit, func() { s.machines.Leave("m-1", l) })
				}
				began := time.Now()
				s.deserted(t.Context(), "bc-1", "m-1")
				if took := time.Since(began); took != c.want {
					t.Errorf("it waited %s, want %s", took, c.want)
				}
			})
		})
	}
}
