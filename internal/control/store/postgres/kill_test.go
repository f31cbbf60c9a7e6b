package postgres

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/store"
	"aloft/internal/control/store/postgres/postgrestest"
)

// TestKill kills the database during appends. After its restart, it must
// contain every acknowledged event and no rejected one, and the same store must
// continue to work.
func TestKill(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t, true)
	s, err := Open(t.Context(), server.Database(t, ""), "server-1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	s.settleWithin = 1 // short, so that every way to learn the outcome is used
	const agents = 4
	var ids [agents][2]string
	var least, most [agents]int64 // numbers of the events that must exist, and of those that may
	for i := range ids {
		ids[i][0], ids[i][1] = newTestAgent(t, s)
		least[i], most[i] = 2, 2
	}
	for round := range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		written := make(chan struct{}, 1000)
		var wg sync.WaitGroup
		for i, id := range ids {
			wg.Go(func() {
				for ctx.Err() == nil {
					e := agent.Event{RunID: id[1], Body: delta}
					got, err := s.Append(t.Context(), store.Append{AgentID: id[0], Events: []agent.Event{e, e, e}})
					switch {
					case err == nil:
						least[i] = got[2].Seq
						most[i] = least[i]
						select {
						case written <- struct{}{}:
						default:
						}
					case errors.Is(err, store.ErrUnknown):
						most[i] += 3
						return
					case errors.Is(err, store.ErrUnreachable):
						return
					default:
						t.Errorf("error is %v; want one that says that the store is away", err)
						return
					}
				}
			})
		}
		for range 20 + 10*round {
			<-written
		}
		server.Kill()
		wg.Wait()
		cancel()
		if _, err := s.Acquire(t.Context(), "a", "one", 1); !errors.Is(err, store.ErrUnreachable) {
			t.Errorf("Acquire while it is away: %v; want ErrUnreachable", err)
		}
		if _, err := s.Agent(t.Context(), ids[0][0]); !errors.Is(err, store.ErrUnreachable) {
			t.Errorf("Agent while it is away: %v; want ErrUnreachable", err)
		}
		if err := server.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i, id := range ids {
			events, err := s.Read(t.Context(), id[0], 0, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			head := int64(len(events))
			if head < least[i] || head > most[i] {
				t.Errorf("the journal has %d events; want %d to %d", head, least[i], most[i])
			}
			wantHead(t, s, id[0], head)
			least[i], most[i] = head, head
			if err := grow(t, s, id[0], id[1]); err != nil {
				t.Errorf("append when it is back: %v", err)
			}
			least[i] += 3
			most[i] += 3
		}
	}
}
