package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/store"
	"aloft/internal/conversation"
)

// newTestAgent makes an agent with an open run.
func newTestAgent(t testing.TB, s *Store) (agentID, runID string) {
	t.Helper()
	agentID, runID = agent.NewID(), agent.NewRunID()
	var zero int64
	_, err := s.Append(t.Context(), store.Append{AgentID: agentID, IfHead: &zero, Events: []agent.Event{
		{Body: &agent.Created{Name: "Fix the parser", UserID: 1, Env: agent.Env{Type: "cloud"}, Repos: []agent.Repo{{URL: "https://git.example.com/a/b"}}}},
		{RunID: runID, Body: &agent.RunCreated{Prompt: conversation.Text(conversation.User, "fix the parser")}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return agentID, runID
}

var delta = &agent.TextDelta{Text: "a sentence or so of what a model has to say about the matter, as they come in one batch of deltas"}

// BenchmarkAppend has agents append one event at a time, each when its last is
// on disk. p99 is of one append.
func BenchmarkAppend(b *testing.B) {
	for _, agents := range []int{1, 16, 100} {
		b.Run(fmt.Sprintf("agents=%d", agents), func(b *testing.B) {
			s := openTest(b, b.TempDir())
			var ids [][2]string
			for range agents {
				a, r := newTestAgent(b, s)
				ids = append(ids, [2]string{a, r})
			}
			b.ResetTimer()
			var left atomic.Int64
			left.Store(int64(b.N))
			took := make([][]time.Duration, agents)
			var wg sync.WaitGroup
			for i, id := range ids {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						start := time.Now()
						_, err := s.Append(b.Context(), store.Append{AgentID: id[0], Events: []agent.Event{{RunID: id[1], Body: delta}}})
						if err != nil {
							b.Error(err)
							return
						}
						took[i] = append(took[i], time.Since(start))
					}
				})
			}
			wg.Wait()
			report(b, slices.Concat(took...))
		})
	}
}

// BenchmarkPlainInsert is the yardstick: the same rows by one INSERT after
// another, each its own transaction, with the same settings.
func BenchmarkPlainInsert(b *testing.B) {
	db, err := sql.Open("sqlite", dsn(filepath.Join(b.TempDir(), "plain.db")))
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	ctx := context.Background()
	if _, err := db.ExecContext(ctx, `CREATE TABLE events (agent_id TEXT, seq INTEGER, run_id TEXT, time INTEGER, kind TEXT, data BLOB, PRIMARY KEY (agent_id, seq)) WITHOUT ROWID`); err != nil {
		b.Fatal(err)
	}
	insert, err := db.PrepareContext(ctx, `INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)`)
	if err != nil {
		b.Fatal(err)
	}
	defer insert.Close()
	kind, data, err := agent.Encode(delta)
	if err != nil {
		b.Fatal(err)
	}
	id, run := agent.NewID(), agent.NewRunID()
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		if _, err := insert.ExecContext(ctx, id, i, run, start.UnixNano(), kind, data); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	report(b, took)
}

func report(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}
