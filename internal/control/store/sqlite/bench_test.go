package sqlite

import (
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

// newTestAgent creates an agent with an open run.
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

// round is the number of appends, and of plain inserts, in each alternating
// measurement. Alternation makes other load on the host affect both.
const round = 250

// BenchmarkAppend has agents append one event at a time, each after its
// previous one is on disk. p99 is for one append. ns/yardstick is for the same
// rows written by one INSERT per transaction with the same settings.
func BenchmarkAppend(b *testing.B) {
	for _, agents := range []int{1, 16, 100} {
		b.Run(fmt.Sprintf("agents=%d", agents), func(b *testing.B) {
			s := openTest(b, b.TempDir())
			var ids [][2]string
			for range agents {
				a, r := newTestAgent(b, s)
				ids = append(ids, [2]string{a, r})
			}
			plain := newPlain(b)
			took := make([][]time.Duration, agents)
			b.ResetTimer()
			for done := 0; done < b.N; done += round {
				var left atomic.Int64
				left.Store(int64(min(round, b.N-done)))
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
				b.StopTimer()
				plain.add(min(round, b.N-done))
				b.StartTimer()
			}
			report(b, slices.Concat(took...))
			b.ReportMetric(float64(plain.took.Nanoseconds())/float64(plain.rows), "ns/yardstick")
		})
	}
}

// plainTable is the table used by the baseline benchmark.
type plainTable struct {
	b      *testing.B
	insert *sql.Stmt
	id     string
	run    string
	kind   string
	data   []byte
	rows   int
	took   time.Duration
}

func newPlain(b *testing.B) *plainTable {
	b.Helper()
	db, err := sql.Open("sqlite", dsn(filepath.Join(b.TempDir(), "plain.db")))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(b.Context(), `CREATE TABLE events (agent_id TEXT, seq INTEGER, run_id TEXT, time INTEGER, kind TEXT, data BLOB, PRIMARY KEY (agent_id, seq)) WITHOUT ROWID`); err != nil {
		b.Fatal(err)
	}
	p := &plainTable{b: b, id: agent.NewID(), run: agent.NewRunID()}
	if p.insert, err = db.PrepareContext(b.Context(), `INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)`); err != nil {
		b.Fatal(err)
	}
	if p.kind, p.data, err = agent.Encode(delta); err != nil {
		b.Fatal(err)
	}
	return p
}

func (p *plainTable) add(rows int) {
	start := time.Now()
	for range rows {
		p.rows++
		if _, err := p.insert.ExecContext(p.b.Context(), p.id, p.rows, p.run, start.UnixNano(), p.kind, p.data); err != nil {
			p.b.Fatal(err)
		}
	}
	p.took += time.Since(start)
}

func report(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}
